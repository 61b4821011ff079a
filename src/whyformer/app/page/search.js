/* The search over all classes of a model. */

import { get } from "./api.js";

const MOST_SHOWN = 8;
/** What models do whose classes are the words that they know. */
const OF_WORDS = ["language", "translation", "speech", "blanks"];

/** A search box that calls pick(index); it stays the same element for all documents. */
export function makeSearch(pick) {
  const box = document.createElement("input");
  box.type = "search";
  box.autocomplete = "off";
  const list = document.createElement("div");
  list.className = "found";
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", "Classes found");
  const count = document.createElement("p");
  count.className = "found-count";
  count.setAttribute("role", "status");
  const node = document.createElement("div");
  node.className = "search";
  node.append(box, list, count);
  let model = null;
  let latest = null;

  function clear() {
    latest?.abort();
    box.value = "";
    list.replaceChildren();
    count.textContent = "";
  }

  async function look() {
    latest?.abort();
    latest = new AbortController();
    if (!box.value.trim()) return clear();
    const query = new URLSearchParams({ model: model.name, search: box.value, limit: MOST_SHOWN });
    try {
      const { found, classes } = await get(`classes?${query}`, latest.signal);
      list.replaceChildren(...classes.map(result));
      const more = found > classes.length ? `, ${classes.length} shown` : "";
      count.textContent = found ? `${found} found${more}` : `No ${OF_WORDS.includes(model.task) ? "word" : "class"} holds these letters`;
    } catch (error) {
      if (error.name !== "AbortError") count.textContent = error.message;
    }
  }

  function result({ index, label }) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = whyformerTools.spaced(label);
    button.addEventListener("click", () => {
      clear();
      box.focus();
      pick(index);
    });
    return button;
  }

  box.addEventListener("input", look);
  return {
    node,
    /** Few classes are all listed already and need no search. */
    show(next) {
      if (model?.name !== next.name) clear();
      model = next;
      node.hidden = next.classes !== null && next.classes <= 5;
      const many = OF_WORDS.includes(next.task) ? "words" : "classes";
      const all = next.classes === null ? "Class number" : `Search all ${next.classes} ${many}`;
      box.placeholder = all;
      box.setAttribute("aria-label", all);
    },
  };
}
