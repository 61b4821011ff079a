/* What a model reads beside its input: texts, a second text, a second picture. */

const LABELS = {
  "picture questions": "A question about the picture",
  "text image": "Texts to compare the picture with, one a line",
  "text text": "Endings to choose from, one a line",
  "similar_to text": "A text to compare it with",
  "pair text": "The text that holds the answer",
};

/** What the field for it is called; nothing for models that read one thing alone. */
export const labelOf = ({ beside, kind, task }) => LABELS[task] ?? LABELS[`${beside[0]} ${kind}`] ?? "";

/** Whether it may be a second picture. */
export const compares = ({ beside, kind }) => kind === "image" && beside.includes("similar_to");

/** As the server takes it; null where the model lacks it still. */
export function besideOf(model, typed, other) {
  if (other && compares(model)) return { similar_to: other };
  if (!labelOf(model)) return {};
  const text = typed.trim();
  if (!text) return null;
  if (model.beside[0] !== "text") return { [model.beside[0]]: text };
  return { texts: [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))] };
}
