/* Where inputs come from: a file, a drop, the clipboard, the keyboard, an example. */

/** What people call each kind of input, how they begin, and which files they may choose. */
export const KINDS = {
  image: { many: "pictures", begin: "Drop a picture", accept: "image/*" },
  text: { many: "texts", begin: "Type a text", accept: "" },
  sound: { many: "sounds", begin: "Drop a sound", accept: "audio/*,.wav,.flac,.ogg,.mp3" },
  video: { many: "videos", begin: "Drop an animation (GIF, WebP)", accept: "image/gif,image/webp" },
};

const TYPING_PAUSE = 300;
const byId = (id) => document.getElementById(id);

let wanted = "image";

/** What a file is: an animation is a picture too, unless the model reads videos. */
function kindOf({ type }) {
  const [kind] = type.split("/");
  if (kind === "image" && !(wanted === "video" && /gif|webp/.test(type))) return "image";
  return { audio: "sound", video: "video", text: "text" }[kind] ?? (wanted === "text" ? "image" : wanted);
}

/** Calls chosen(input) for every input; an input is a file, an example or a text.

    Calls besides({ beside }) with what is typed to be read beside it, besides({ other }) with a
    second picture, or null. */
export function listen(chosen, besides) {
  typing(byId("text"), (text) => chosen({ kind: "text", text }));
  typing(byId("beside"), (beside) => besides({ beside }));

  async function take(file) {
    const kind = kindOf(file);
    if (kind === "text") chosen({ kind, text: await file.text() });
    else chosen({ kind, file, name: file.name || "pasted image" });
  }
  const second = (other) => besides({ other });
  for (const [id, act] of Object.entries({ file: take, other: second })) {
    byId(id).addEventListener("change", (event) => {
      if (event.target.files.length) act(event.target.files[0]);
      event.target.value = "";
    });
  }
  byId("other-none").addEventListener("click", () => second(null));

  const carries = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  const lit = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    lit(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && lit(false));
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    lit(false);
    (event.target.closest?.("#other-input") ? second : take)(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    const [file] = [...event.clipboardData.files].filter((f) => f.type.startsWith("image/"));
    if (!file) return;
    event.preventDefault();
    take(file);
  });
}

/** Calls typed(text) after a pause, or when the field is left. */
function typing(field, typed) {
  let timer = null;
  const now = () => {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    typed(field.value);
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(now, TYPING_PAUSE);
    fit(field);
  });
  field.addEventListener("change", now);
}

/** The examples of a model, each a button. */
export function showExamples(examples, chosen) {
  const pictures = examples.filter((example) => example.text === null).map((example) => {
    const button = exampleButton(example, chosen);
    const image = document.createElement("img");
    image.src = `api/v1/examples/picture?name=${encodeURIComponent(example.name)}`;
    image.alt = example.name;
    button.append(image);
    return button;
  });
  const texts = examples.filter((example) => example.text !== null).map((example) => {
    const button = exampleButton(example, chosen);
    button.append(example.name);
    return button;
  });
  byId("pictures").replaceChildren(...pictures);
  byId("texts").replaceChildren(...texts);
}

function exampleButton(example, chosen) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.example = example.name;
  button.addEventListener("click", () => chosen(example));
  return button;
}

/** Shows which input is explained: its kind's controls, its name, its example. */
export function showInput(kind, input) {
  wanted = kind;
  byId("file-input").hidden = kind === "text";
  byId("file-begin").textContent = KINDS[kind].begin;
  byId("file-paste").hidden = kind !== "image";
  byId("file").accept = KINDS[kind].accept;
  byId("text-input").hidden = kind !== "text";
  byId("file-name").textContent = input?.file ? input.name : "";
  const text = byId("text");
  if (kind === "text" && text.value !== (input?.text ?? "")) text.value = input?.text ?? "";
  if (kind === "text") fit(text);
  for (const button of document.querySelectorAll("[data-example]")) {
    button.setAttribute("aria-pressed", String(button.dataset.example === input?.example));
  }
}

/** The field for what a model reads beside its input, where it reads anything: a text, or a second
    picture. */
export function showBeside(label, text, compares, other) {
  byId("other-input").hidden = !compares;
  byId("other-name").textContent = other?.name ?? "";
  byId("other-none").hidden = !other;
  byId("beside-input").hidden = !label;
  byId("beside-label").textContent = label;
  if (byId("beside").value !== text && document.activeElement !== byId("beside")) {
    byId("beside").value = text;
  }
  if (label) fit(byId("beside"));
}

function fit(text) {
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight + 2, 260)}px`;
}
