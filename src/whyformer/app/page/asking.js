/* What is asked of models that answer word by word: where, rather than what, or a whole text. */

const byId = (id) => document.getElementById(id);
const EVERY = "every";
const MOST_WRITTEN = 200;
/** By what a model does: what its places are called, and what is asked where none is chosen. */
const PLACES = {
  language: ["The word after", "the last"],
  tags: ["The tag of", "the surest word"],
  blanks: ["The word in", "the first blank"],
  detection: ["Found", "the surest of each class"],
};
/** Where a segmentation is asked: left, top, right, bottom. */
const REGIONS = {
  "the left half": "0,0,0.5,1",
  "the right half": "0.5,0,1,1",
  "the upper half": "0,0,1,0.5",
  "the lower half": "0,0.5,1,1",
  "the upper left quarter": "0,0,0.5,0.5",
  "the upper right quarter": "0.5,0,1,0.5",
  "the lower left quarter": "0,0.5,0.5,1",
  "the lower right quarter": "0.5,0.5,1,1",
  "the middle": "0.25,0.25,0.75,0.75",
};

/** Models that write an answer of their own, whose words are the places. */
export const answers = ({ task }) => ["speech", "translation"].includes(task);

/** As the server takes it: of an answer the first word, unless every word is asked about. */
export function placeOf(model, position) {
  if (!answers(model)) return position;
  return position === EVERY ? null : position ?? 0;
}

let change = null;

/** Calls told({ position }), told({ rather }), told({ write }), told({ edge }) or told({ region }). */
export function listenForAsking(told) {
  change = told;
  const count = () => Math.min(MOST_WRITTEN, Math.max(1, Math.round(Number(byId("words").value)) || 20));
  byId("place").addEventListener("change", ({ target }) =>
    change({ position: target.value === "" ? null : Number(target.value), targets: [] }));
  Object.entries(REGIONS).forEach(([name, box]) => byId("region").append(new Option(name, box)));
  byId("edge").addEventListener("change", ({ target }) => change({ edge: target.value }));
  byId("region").addEventListener("change", ({ target }) => change({ region: target.value, targets: [] }));
  byId("rather").addEventListener("change", ({ target }) => change({ rather: target.value }));
  byId("write").addEventListener("click", () => change({ write: count() }));
  byId("one-word").addEventListener("click", () => change({ write: null }));
  byId("words").addEventListener("change", () => change({ write: count() }));
}

/** Shows the controls that the model has; places and classes are those of the last answer. */
export function showAsking(model, { position, rather, write, edge, region }, places, classes) {
  const language = model.task === "language";
  const named = PLACES[model.task];
  const several = !write && places.length > (language ? 0 : 1);
  byId("answer").hidden = !answers(model) || !places.length;
  byId("writing").hidden = !language;
  byId("words-label").hidden = !write;
  byId("place-label").hidden = !named || !several;
  byId("rather-label").hidden = answers(model) ? !places.length || position === EVERY : !language || !several;
  byId("edge-label").hidden = model.task !== "detection";
  byId("region-label").hidden = model.task !== "regions";
  byId("edge").value = edge;
  if (region && ![...byId("region").options].some(({ value }) => value === region)) {
    byId("region").append(new Option(region, region));
  }
  byId("region").value = region;
  byId("asking").hidden = [...byId("asking").children].every(({ hidden }) => hidden);
  byId("one-word").setAttribute("aria-pressed", String(!write));
  byId("write").setAttribute("aria-pressed", String(Boolean(write)));
  if (write) byId("words").value = write;
  if (document.activeElement !== byId("rather")) byId("rather").value = rather;
  const words = classes.filter(({ index }) => index >= 0).map(({ label }) => new Option("", label));
  byId("rather-words").replaceChildren(...words);
  if (answers(model)) showAnswer(places, position ?? 0);
  if (named) showPlaces(named, places, position ?? "");
}

function showPlaces([label, usual], places, position) {
  byId("place-label").firstElementChild.textContent = label;
  const options = places.map((text, i) => new Option(`${i + 1} ${text}`, i));
  byId("place").replaceChildren(new Option(usual, ""), ...options);
  byId("place").value = position;
}

/** The answer's words, each a button, and one for all of them at once. */
function showAnswer(places, position) {
  const buttons = [...places.entries(), [EVERY, "every word at once"]].map(([place, text]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-pressed", String(place === position));
    button.addEventListener("click", () => change({ position: place, targets: [] }));
    return button;
  });
  const held = [...byId("answer").children].indexOf(document.activeElement);
  byId("answer").replaceChildren(...buttons);
  if (held >= 0) buttons[held]?.focus();
}
