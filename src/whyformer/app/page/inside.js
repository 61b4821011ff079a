/* Inside the model: the four maps of one block, for those who debug. */

import { ask } from "./api.js";
import { makeGlance } from "./glance.js";

const byId = (id) => document.getElementById(id);

/** current() tells the question, the input and the classes shown; returns a function to call
    whenever that has changed. */
export function makeInside(current) {
  const state = { block: null, head: null, target: null, blocks: 0, heads: 0, look: {} };
  let running = null;
  let asked = "";
  let takeDown = null;
  const glance = makeGlance((block, head) => {
    change({ block, head });
    byId("inside-view").scrollIntoView({ block: "nearest" });
  }, say);

  function buttons(place, names, isOn, choose) {
    const made = [...names].map(([value, name]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "why-half";
      button.textContent = name;
      button.setAttribute("aria-pressed", String(isOn(value)));
      button.addEventListener("click", () => choose(value));
      return button;
    });
    const held = [...place.children].indexOf(document.activeElement);
    place.replaceChildren(...made);
    if (held >= 0) made[held]?.focus();
  }

  function showDials(classes) {
    const slider = byId("block");
    slider.max = state.blocks;
    slider.value = state.block + 1;
    byId("block-name").textContent = `${state.block + 1} of ${state.blocks}`;
    const heads = [[null, "Mean"]];
    for (let i = 0; i < state.heads; i++) heads.push([i, `${i + 1}`]);
    buttons(byId("heads"), heads, (head) => head === state.head, (head) => change({ head }));
    const isOn = (index) => index === state.target;
    buttons(byId("inside-classes"), classes, isOn, (target) => change({ target }));
  }

  function change(changes) {
    Object.assign(state, changes);
    update();
  }

  async function update() {
    const now = current();
    if (!byId("inside").open || !now) return;
    if (!now.classes.has(state.target)) state.target = now.shown[0] ?? null;
    const { model, preset, position } = now.question;
    const question = { model, preset, position, targets: now.shown.length ? [state.target] : [] };
    const { head } = state;
    const wanted = JSON.stringify([question, state.block, head, now.input.key]);
    if (wanted === asked) return;
    running?.abort();
    running = new AbortController();
    try {
      const block = state.block ?? 0;
      const response = await ask("blocks", { ...question, block, head }, now.input, running.signal);
      show(await response.json(), now);
      asked = wanted;
      glance.mark(state.block, head);
      glance.update(question, now.input);
    } catch (error) {
      if (error.name !== "AbortError") fail(error);
    }
  }

  function say(error) {
    byId("inside-alert").hidden = false;
    byId("inside-alert").textContent = error.message;
  }

  function fail(error) {
    say(error);
    byId("glance").hidden = true;
    takeDown?.();
    takeDown = null;
    asked = "";
  }

  function show(document, now) {
    Object.assign(state, { blocks: document.blocks, heads: document.heads });
    if (state.block === null) return change({ block: document.blocks - 1 });
    byId("inside-alert").hidden = true;
    showDials(now.classes);
    document.start = { ...state.look, all: true };
    const changed = ({ smooth, opacity, pieces, cropped, chosen }) => {
      state.look = { smooth, opacity, pieces, cropped, chosen };
    };
    const before = takeDown;
    takeDown = whyformerViewer(byId("inside-view"), document, { changed });
    before?.();
  }

  byId("inside").addEventListener("toggle", update);
  const slide = (event) => change({ block: Number(event.target.value) - 1 });
  byId("block").addEventListener("input", slide);
  return {
    update,
    /** Another model has other blocks, another input other patches and words. */
    forget() {
      Object.assign(state, { block: null, head: null, look: { ...state.look, chosen: null } });
    },
  };
}
