/* Erase: what becomes of the probabilities without some patches or words. */

import { ask } from "./api.js";

const { el, button, number, percent, quote, spaced } = globalThis.whyformerTools;
const AT_ONCE = 5;
const PLURAL = { patch: "patches", word: "words" };

/** current() tells the question, the input and the classes shown; returns what the viewer asks. */
export function makeEraser(current) {
  const erased = new Set();
  let on = false;
  let key = "";
  let unit = "patch";
  let view = null;
  let running = null;

  const press = button({ class: "why-toggle", "aria-pressed": "false" }, () => turn(!on), "Erase");
  const rows = el("tbody", {});
  const heads = ["Class", "Before", "After", "Change"].map((name) => el("th", { scope: "col" }, name));
  const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), rows);
  const state = el("p", { class: "erase-state", role: "status" });
  const strongest = button({ class: "small" }, eraseStrongest);
  const restore = button({ class: "small" }, restoreAll, "Restore all");
  const alert = el("p", { class: "alert", role: "alert" });
  const acts = el("div", { class: "erase-acts" }, strongest, restore);
  const node = el("section", { class: "erase", "aria-label": "Erase" }, table, alert, state, acts);
  node.hidden = alert.hidden = true;

  function turn(next) {
    on = next;
    press.setAttribute("aria-pressed", String(on));
    node.hidden = !on;
    changed();
  }

  function eraseStrongest() {
    const left = view.strongest().filter((each) => !erased.has(each));
    left.slice(0, AT_ONCE).forEach((each) => erased.add(each));
    changed();
  }

  function restoreAll() {
    erased.clear();
    changed();
  }

  function changed() {
    view.update();
    update();
  }

  async function update() {
    running?.abort();
    if (!on) return;
    const { question, input, shown } = current();
    const mine = (running = new AbortController());
    const asked = { model: question.model, targets: shown, erased: [...erased] };
    try {
      const response = await ask("erase", asked, { ...input, key }, mine.signal);
      show(await response.json());
      alert.hidden = true;
    } catch (error) {
      if (error.name === "AbortError") return;
      alert.hidden = false;
      alert.textContent = error.message;
    }
  }

  function show({ classes, probabilities, prediction, how, colour }) {
    document.documentElement.style.setProperty("--why-erased", colour);
    const amount = probabilities ? percent : number;
    rows.replaceChildren(...classes.map((entry) => row(entry, amount, probabilities, prediction)));
    restore.disabled = !erased.size;
    const count = `${erased.size} ${erased.size === 1 ? unit : PLURAL[unit]} erased.`;
    state.textContent = erased.size ? `${count} ${how}` : `Click a ${unit} to erase it. ${how}`;
  }

  function row({ index, label, before, after }, amount, probabilities, prediction) {
    const now = index === prediction ? el("span", { class: "erase-now" }, "predicted") : null;
    const name = el("th", { scope: "row" }, el("span", {}, spaced(label)), now);
    if (probabilities) name.append(bar(before, after));
    const change = probabilities ? points(after - before) : signed(after - before, number);
    const cells = [amount(before), amount(after), change].map((text) => el("td", {}, text));
    return el("tr", {}, name, ...cells);
  }

  /** What is left, and a line where it was. */
  function bar(before, after) {
    const fill = el("span", { class: "why-fill" });
    fill.style.width = `${100 * after}%`;
    const was = el("span", { class: "erase-was" });
    was.style.left = `${100 * before}%`;
    return el("span", { class: "why-bar erase-bar" }, fill, was);
  }

  const signed = (change, write) => (change > 0 ? "+" : "") + write(change);
  const rounded = (x) => `${x < 0 ? "\u2212" : ""}${Math.abs(x).toFixed(1)}`;
  function points(change) {
    const text = signed(100 * change, rounded);
    return `${/[1-9]/.test(text) ? text : "0.0"} points`;
  }

  return {
    button: press,
    node,
    get on() {
      return on;
    },
    has: (each) => on && erased.has(each),
    toggle(each) {
      if (each === null) return;
      if (!erased.delete(each)) erased.add(each);
      changed();
    },
    /** A document is shown; what was erased of another input is forgotten. */
    shown(data, next) {
      if (data.input !== key) erased.clear();
      key = data.input;
      unit = data.image ? "patch" : "word";
      view = next;
      const several = new Set(data.views.map(({ target }) => target)).size > 1;
      const which = several ? ` for ${quote(spaced(data.views[0].label))}` : "";
      strongest.textContent = `Erase the strongest ${AT_ONCE}${which}`;
      if (on) changed();
    },
  };
}
