/* Where inputs come from: a file, a drop, the clipboard, the keyboard, an example. */

const TYPING_PAUSE = 300;
const byId = (id) => document.getElementById(id);

/** Calls chosen(input) for every input; an input is a file, an example or a text.

    Calls besides(lines) with what is typed to be read beside it. */
export function listen(chosen, besides) {
  const text = byId("text");
  let timer;
  const typed = () => chosen({ kind: "text", text: text.value });
  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(typed, TYPING_PAUSE);
    fit(text);
  });

  const beside = byId("beside");
  let soon;
  beside.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(() => besides(beside.value), TYPING_PAUSE);
    fit(beside);
  });

  const take = (file) => chosen({ kind: "image", file, name: file.name || "pasted image" });
  byId("file").addEventListener("change", (event) => {
    if (event.target.files.length) take(event.target.files[0]);
    event.target.value = "";
  });

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
    take(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    const [file] = [...event.clipboardData.files].filter((f) => f.type.startsWith("image/"));
    if (!file) return;
    event.preventDefault();
    take(file);
  });
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
  byId("image-input").hidden = kind !== "image";
  byId("text-input").hidden = kind !== "text";
  byId("file-name").textContent = input?.file ? input.name : "";
  const text = byId("text");
  if (kind === "text" && text.value !== (input?.text ?? "")) text.value = input?.text ?? "";
  if (kind === "text") fit(text);
  for (const button of document.querySelectorAll("[data-example]")) {
    button.setAttribute("aria-pressed", String(button.dataset.example === input?.example));
  }
}

/** The field for what a model reads beside its input, where it reads anything. */
export function showBeside(label, text) {
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
