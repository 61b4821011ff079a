/* The page: what is asked, by whom it is answered, and how the answer is shown. */

import { readAddress, makeAddress } from "./address.js";
import { listenForActions } from "./actions.js";
import { ask, decoded, get } from "./api.js";
import { answers, listenForAsking, placeOf, showAsking } from "./asking.js";
import { besideOf, compares, labelOf as besideLabel } from "./beside.js";
import { makePresets, showChoices } from "./choices.js";
import { makeEraser } from "./erase.js";
import { KINDS, listen, showBeside, showExamples, showInput } from "./inputs.js";
import { makeInside } from "./inside.js";
import { makePinned } from "./pinned.js";
import { makeSearch } from "./search.js";

const byId = (id) => document.getElementById(id);
const PATIENCE = 400;
const MOST_SHOWN = 2;

const [models, { methods, presets, default_preset: usualPreset }, examples] = await Promise.all(
  [get("models"), get("methods"), get("examples")]);

/** A method that is null is the model's own. */
const nowhere = { position: null, write: null, edge: "", region: "" };
const usual = { method: null, preset: usualPreset, opacity: 80, rather: "", ...nowhere };
const state = {
  ...usual,
  model: models[0],
  inputs: {},
  beside: "",
  other: null,
  targets: [],
  all: false,
  look: { opacity: usual.opacity, smooth: true, pieces: false, cropped: false, chosen: null },
};
let shown = { targets: [], newest: 0, document: null, places: [] };
let remembering;
let running = null;
let takeDown = null;

const fromExample = ({ name, text, texts }) =>
  text === null ? { kind: "image", example: name, texts } : { kind: "text", example: name, text };
const examplesOf = (model) => examples.filter((example) => example.model === model.name);
const inputNow = () => state.inputs[state.model.kind];
const usualMethods = methods.filter((method) => !method.on_request).map((method) => method.name);
/** Whether one thing that a detector found is asked about: it says its class itself. */
const finding = () => state.model.task === "detection" && state.position !== null;
const besideNow = () => besideOf(state.model, state.beside, state.other);

function questionNow() {
  const { model, targets, all, preset, rather, write } = state;
  const own = [state.method ?? model.method];
  if (write) return { model: model.name, write, methods: own, preset };
  const runner_up = !targets.length && !answers(model);
  const place = { position: placeOf(model, state.position), rather_than: rather || null };
  if (state.edge && model.task === "detection") place.edge = state.edge;
  if (state.region && model.task === "regions") place.region = state.region.split(",").map(Number);
  return { model: model.name, targets, runner_up, ...place, methods: all ? usualMethods : own, preset };
}

/** The methods that are offered, a model's own first where it is a variant of another. */
function methodsNow() {
  const own = state.model.method;
  const known = methods.some(({ name }) => name === own);
  return known ? methods : [{ name: own, class_specific: true }, ...methods];
}

/** What was chosen in one input is not there in another. */
function forget() {
  Object.assign(state.look, { chosen: null, target: null });
  Object.assign(state, nowhere);
  Object.assign(shown, { newest: 0, places: [] });
  inside.forget();
}

// --- asking --------------------------------------------------------------------------------

async function answer() {
  running?.abort();
  running = null;
  showInput(state.model.kind, inputNow());
  const second = compares(state.model) ? state.other : null;
  showBeside(second ? "" : besideLabel(state.model), state.beside, compares(state.model), second);
  showAsking(state.model, state, shown.places, shown.document?.classes ?? []);
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

function change(changes) {
  Object.assign(state, changes);
  return answer();
}

function chooseBeside(beside) {
  if (inputNow()) inputNow().key = "";
  forget();
  change({ ...beside, targets: [] });
}

function chooseInput(input) {
  const before = state.model;
  if (state.model.kind !== input.kind) {
    const model = models.find((candidate) => candidate.kind === input.kind);
    if (!model) return fail(new Error(`No model here reads ${KINDS[input.kind].many}.`));
    state.model = model;
  }
  state.inputs[input.kind] = input;
  if (input.texts) state.beside = input.texts.join("\n");
  forget();
  if (input.kind !== "text" || before !== state.model) Object.assign(state, { targets: [], rather: "" });
  showModels();
  answer();
}

function chooseModel(model) {
  const { kind } = model;
  const [now, offered] = [state.inputs[kind], examplesOf(model)];
  // An example is of its own model; what somebody brought is for all that read it.
  const strange = !now || (now.example && !offered.some(({ name }) => name === now.example));
  if (strange && offered.length) state.inputs[kind] = fromExample(offered[0]);
  else if (now) state.inputs[kind] = { ...now, key: "" };
  if (state.inputs[kind]?.texts) state.beside = state.inputs[kind].texts.join("\n");
  forget();
  Object.assign(state, { model, targets: [], rather: "" });
  showModels();
  answer();
}

/** The last two classes that were clicked stand side by side, each in its place. */
function pickClass(index) {
  if (finding()) Object.assign(state, { position: null, targets: [] });
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
  const isStory = document.kind === "story";
  const asked = (document.views ?? []).map((view) => view.target).filter((target) => target !== null);
  const known = [...new Set(asked)].filter((target) => target >= 0);
  const kept = asked.length ? state.targets : shown.targets;
  const { places = shown.places, classes = [] } = document;
  shown = { targets: known.length ? known : kept, newest: shown.newest, document, places };
  if (!isStory) document.start = { ...state.look, all: state.all };
  byId("alert").hidden = true;
  byId("actions").hidden = false;
  const beside = Object.keys(besideNow()).length > 0;
  byId("inside").hidden = isStory || Boolean(document.others) || beside;
  byId("actions").querySelector("[data-save=gif]").hidden = document.kind !== "video";
  search.show(state.model);
  const words = document.others && classes.every(({ index }) => index < 0);
  if (beside || words) search.node.hidden = true;
  const host = { methods: methodsNow(), ask: onAsk, changed: onChanged, search: search.node, options };
  if (document.erases) host.eraser = eraser;
  const before = takeDown;
  takeDown = isStory ? whyformerStory(byId("view"), document) : whyformerViewer(byId("view"), document, host);
  before?.();
  showAsking(state.model, state, places, classes);
  say(byId("view").querySelector(".why-question").textContent, true);
  inside.update();
}

function showNothing() {
  takeDown?.();
  takeDown = null;
  byId("actions").hidden = byId("inside").hidden = true;
  byId("alert").hidden = true;
  showBusy(false);
  const { begin } = KINDS[state.model.kind];
  if (!besideNow() && inputNow()) return say(`${besideLabel(state.model)}: type to begin.`);
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

function onChanged({ opacity, smooth, pieces, cropped, chosen, target, playing }) {
  state.look = { opacity, smooth, pieces, cropped, chosen, target, playing };
  remember();
}

function showModels() {
  showChoices(models, state.model, chooseModel);
  showExamples(examplesOf(state.model), (example) => chooseInput(fromExample(example)));
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
  const { model, text, example, look, ...settings } = readAddress();
  const known = models.find((candidate) => candidate.name === model);
  state.model = known || models[0];
  const { kind } = state.model;
  const offered = examplesOf(state.model);
  const named = offered.find((candidate) => candidate.name === example) || offered[0];
  if (kind === "text" && text !== undefined) state.inputs[kind] = { kind, text };
  else state.inputs[kind] = named ? fromExample(named) : null;
  const beside = state.inputs[kind]?.texts?.join("\n") ?? "";
  Object.assign(state, usual, { beside, other: null, targets: [], all: false, ...settings });
  state.look = { opacity: usual.opacity, chosen: null, ...look };
  options.querySelector("select").value = state.preset;
  showModels();
  const other = `The link asks a model named \u201c${model}\u201d, which is not here; this is ${state.model.name}.`;
  answer().then(() => model !== undefined && !known && fail(new Error(other)));
}

function labelOf(index) {
  return shown.document.classes?.find((entry) => entry.index === index)?.label ?? String(index);
}

const search = makeSearch(pickClass);
const options = makePresets(presets, (preset) => change({ preset }));
const current = () => ({
  question: { ...questionNow(), ...(state.write || finding() ? {} : { targets: shown.targets, runner_up: false }) },
  input: { ...inputNow(), beside: besideNow() ?? {} },
  link: new URL(addressNow(), location.href).href,
  look: state.look,
  shown: shown.targets,
  classes: new Map(shown.targets.map((index) => [index, labelOf(index)])),
});
const inside = makeInside(() => (shown.document ? current() : null));
const eraser = makeEraser(current);
listen(chooseInput, chooseBeside);
listenForAsking(change);
listenForActions(current, say, fail);
makePinned(() => ({ shown: shown.document, look: state.look }), say);
byId("cancel").addEventListener("click", () => {
  running?.abort();
  running = null;
  showBusy(false);
  byId("view").removeAttribute("aria-busy");
  say("Cancelled.");
});
// The address holds the question, so this link must not become the address.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("view").focus();
});
addEventListener("hashchange", restore);
restore();
