/* The page: what is asked, by whom it is answered, and how the answer is shown. */

import { readAddress, makeAddress } from "./address.js";
import { listenForActions } from "./actions.js";
import { ask, get } from "./api.js";
import { makeEraser } from "./erase.js";
import { listen, showBeside, showExamples, showInput } from "./inputs.js";
import { makeInside } from "./inside.js";
import { makePinned } from "./pinned.js";
import { makeSearch } from "./search.js";

const byId = (id) => document.getElementById(id);
const PATIENCE = 400;
const MOST_SHOWN = 2;

const [models, { methods, default: usualMethod, presets, default_preset: usualPreset }, examples] =
  await Promise.all([get("models"), get("methods"), get("examples")]);

const usual = { method: usualMethod, preset: usualPreset, opacity: 80 };
const state = {
  model: models[0],
  inputs: { image: null, text: null },
  beside: "",
  targets: [],
  method: usual.method,
  all: false,
  preset: usual.preset,
  look: { opacity: usual.opacity, smooth: true, pieces: false, chosen: null },
};
let shown = { targets: [], newest: 0, document: null };
let remembering;
let running = null;
let takeDown = null;

const fromExample = ({ name, text }) =>
  text === null ? { kind: "image", example: name } : { kind: "text", example: name, text };
const examplesOf = (model) => examples.filter((example) => example.model === model.name);
const inputNow = () => state.inputs[state.model.kind];
const usualMethods = methods.filter((method) => !method.on_request).map((method) => method.name);

/** What the model reads beside its input, as the server takes it; null where it lacks it still. */
function besideNow() {
  const typed = state.beside.trim();
  const [what] = state.model.beside;
  if (what === "text") {
    const lines = typed.split("\n").map((line) => line.trim()).filter(Boolean);
    return lines.length ? { texts: [...new Set(lines)] } : null;
  }
  if (what === "similar_to") return typed ? { similar_to: typed } : null;
  return {};
}

const BESIDE = {
  text: "Texts to compare the picture with, one a line",
  similar_to: "A text to compare it with",
};

function questionNow() {
  const { model, targets, all, method, preset } = state;
  const names = all ? usualMethods : [method];
  return { model: model.name, targets, runner_up: !targets.length, methods: names, preset };
}

// --- asking --------------------------------------------------------------------------------

async function answer() {
  running?.abort();
  running = null;
  showInput(state.model.kind, inputNow());
  showBeside(BESIDE[state.model.beside[0]] ?? "", state.beside);
  remember();
  const input = inputNow();
  const empty = !input || (input.kind === "text" && !input.text.trim());
  if (empty || !besideNow()) return showNothing();
  const mine = (running = new AbortController());
  const late = setTimeout(() => showBusy(true), PATIENCE);
  byId("view").setAttribute("aria-busy", "true");
  try {
    const question = { ...questionNow(), detail: true };
    const sent = { ...input, beside: besideNow() };
    const response = await ask("explain", question, sent, mine.signal);
    const document = await response.json();
    input.key = document.input;
    await decoded(document);
    if (running === mine) show(document);
  } catch (error) {
    if (running === mine) fail(error);
  } finally {
    clearTimeout(late);
    if (running === mine) {
      running = null;
      showBusy(false);
      byId("view").removeAttribute("aria-busy");
    }
  }
}

/** A picture that is decoded before it is shown does not flicker. */
async function decoded(document) {
  if (!document.image) return;
  const image = new Image();
  image.src = document.image.src;
  await image.decode();
}

function change(changes) {
  Object.assign(state, changes);
  return answer();
}

function chooseBeside(beside) {
  if (inputNow()) inputNow().key = "";
  state.look.chosen = null;
  shown.newest = 0;
  inside.forget();
  change({ beside, targets: [] });
}

function chooseInput(input) {
  const before = state.model;
  if (state.model.kind !== input.kind) {
    const model = models.find((candidate) => candidate.kind === input.kind);
    if (!model) return fail(new Error(`No model here reads ${input.kind}s`));
    state.model = model;
  }
  state.inputs[input.kind] = input;
  state.look.chosen = null;
  shown.newest = 0;
  if (input.kind === "image" || before !== state.model) state.targets = [];
  inside.forget();
  showModels();
  answer();
}

function chooseModel(model) {
  const kind = model.kind;
  const [first] = examplesOf(model);
  if (state.inputs[kind]) state.inputs[kind] = { ...state.inputs[kind], key: "" };
  else if (first) state.inputs[kind] = fromExample(first);
  state.look.chosen = null;
  shown.newest = 0;
  inside.forget();
  Object.assign(state, { model, targets: [] });
  showModels();
  answer();
}

/** The last two classes that were clicked stand side by side, each in its place. */
function pickClass(index) {
  const targets = [...shown.targets];
  if (targets.includes(index)) {
    if (targets.length > 1) change({ targets: targets.filter((other) => other !== index) });
    return;
  }
  const place = targets.length < MOST_SHOWN ? targets.length : 1 - shown.newest;
  targets[place] = index;
  shown.newest = place;
  change({ targets });
}

function onAsk(asked) {
  if ("target" in asked) pickClass(asked.target);
  else change(asked);
}

// --- showing -------------------------------------------------------------------------------

function show(document) {
  const targets = document.views.map((view) => view.target).filter((target) => target !== null);
  const known = [...new Set(targets)];
  const agnostic = !known.length;
  shown = { targets: agnostic ? shown.targets : known, newest: shown.newest, document };
  document.start = { ...state.look, all: state.all };
  byId("alert").hidden = true;
  byId("actions").hidden = false;
  byId("inside").hidden = state.model.beside.length > 0;
  search.show(state.model);
  search.node.hidden = state.model.beside.length > 0;
  const host = { methods, ask: onAsk, changed: onChanged, search: search.node, options };
  if (document.erases) host.eraser = eraser;
  const before = takeDown;
  takeDown = whyformerViewer(byId("view"), document, host);
  before?.();
  say(byId("view").querySelector(".why-question").textContent, true);
  inside.update();
}

function showNothing() {
  takeDown?.();
  takeDown = null;
  byId("actions").hidden = byId("inside").hidden = true;
  byId("alert").hidden = true;
  showBusy(false);
  const begin = state.model.kind === "text" ? "Type a text" : "Drop a picture";
  if (!besideNow() && inputNow()) return say(`${BESIDE[state.model.beside[0]]}: type to begin.`);
  say(`${begin} to begin.`);
  if (state.targets.length) sayWhatIsAsked(begin).catch(fail);
}

/** A link to a picture of somebody's own holds the question, not the picture. */
async function sayWhatIsAsked(begin) {
  const { model, targets } = state;
  const query = new URLSearchParams({ model: model.name, limit: 100000 });
  const { classes } = await get(`classes?${query}`);
  const names = new Map(classes.map(({ index, label }) => [index, label.split(",")[0].trim()]));
  const asked = targets.map((index) => `why \u201c${names.get(index) ?? index}\u201d`);
  if (!inputNow() && state.targets === targets) say(`${begin} to ask: ${asked.join(", ")}?`);
}

function showBusy(busy) {
  byId("cancel").hidden = !busy;
  if (busy) say("Working \u2026");
}

/** For everybody, or for screen readers alone where the page shows it already. */
function say(sentence, quietly = false) {
  byId("status").textContent = sentence;
  byId("status").classList.toggle("unseen", quietly);
}

function fail(error) {
  if (error.name === "AbortError") return;
  say("");
  byId("alert").hidden = false;
  byId("alert").textContent = error.message;
}

function onChanged({ opacity, smooth, pieces, chosen }) {
  state.look = { opacity, smooth, pieces, chosen };
  remember();
}

function showModels() {
  const buttons = models.map((model) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = model.summary;
    button.append(model.name);
    const kind = document.createElement("span");
    kind.textContent = model.kind === "image" ? "pictures" : "texts";
    button.append(kind);
    button.setAttribute("aria-pressed", String(model === state.model));
    button.addEventListener("click", () => model === state.model || chooseModel(model));
    return button;
  });
  const held = [...byId("models").children].indexOf(document.activeElement);
  byId("models").replaceChildren(...buttons);
  if (held >= 0) buttons[held].focus();
  showExamples(examplesOf(state.model), (example) => chooseInput(fromExample(example)));
}

function makeOptions() {
  const select = document.createElement("select");
  presets.forEach((name) => select.add(new Option(name, name)));
  select.addEventListener("change", () => change({ preset: select.value }));
  const label = document.createElement("label");
  label.className = "preset";
  label.append("Preset ", select);
  return label;
}

// --- the address ---------------------------------------------------------------------------

function addressNow() {
  return makeAddress({ ...state, model: state.model.name, input: inputNow() }, usual);
}

/** After a pause: browsers slow down pages that change their address all the time. */
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => history.replaceState(null, "", addressNow()), 150);
}

/** Sets everything as the address says; what it does not say is as usual. */
function restore() {
  const { model, text, example, look, beside = "", ...settings } = readAddress();
  const known = models.find((candidate) => candidate.name === model);
  state.model = known || models[0];
  const { kind } = state.model;
  const offered = examplesOf(state.model);
  const named = offered.find((candidate) => candidate.name === example) || offered[0];
  if (kind === "text" && text !== undefined) state.inputs[kind] = { kind, text };
  else state.inputs[kind] = named ? fromExample(named) : null;
  Object.assign(state, { beside, targets: [], method: usual.method, all: false, preset: usual.preset });
  Object.assign(state, settings, { look: { opacity: usual.opacity, chosen: null, ...look } });
  options.querySelector("select").value = state.preset;
  showModels();
  const other = `The link asks a model named \u201c${model}\u201d, which is not here; this is ${state.model.name}.`;
  answer().then(() => model !== undefined && !known && fail(new Error(other)));
}

function labelOf(index) {
  return shown.document.classes.find((entry) => entry.index === index)?.label ?? String(index);
}

const search = makeSearch(pickClass);
const options = makeOptions();
const current = () => ({
  question: { ...questionNow(), targets: shown.targets, runner_up: false },
  input: { ...inputNow(), beside: besideNow() ?? {} },
  link: new URL(addressNow(), location.href).href,
  look: state.look,
  shown: shown.targets,
  classes: new Map(shown.targets.map((index) => [index, labelOf(index)])),
});
const inside = makeInside(() => (shown.document ? current() : null));
const eraser = makeEraser(current);
listen(chooseInput, chooseBeside);
listenForActions(current, say, fail);
makePinned(() => ({ shown: shown.document, look: state.look }), say);
byId("cancel").addEventListener("click", () => {
  running?.abort();
  running = null;
  showBusy(false);
  byId("view").removeAttribute("aria-busy");
  say("Cancelled.");
});
addEventListener("hashchange", restore);
restore();
