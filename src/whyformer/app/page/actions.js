/* Keep and share: files to download, code and links to copy. */

import { ask, checked, postJson } from "./api.js";
import { missing } from "./address.js";

const byId = (id) => document.getElementById(id);

/** current() tells the question, the input and the look; say(sentence) and fail(error) report. */
export function listenForActions(current, say, fail) {
  const perform = (action) => async () => {
    try {
      await action();
    } catch (error) {
      fail(error);
    }
  };
  for (const button of document.querySelectorAll("[data-save]")) {
    const format = button.dataset.save;
    button.addEventListener("click", perform(() => download(format, current(), say)));
  }
  for (const button of document.querySelectorAll("[data-copy]")) {
    const what = button.dataset.copy;
    button.addEventListener("click", perform(() => copy(what, current(), say)));
  }
}

async function download(format, { question, input, look }, say) {
  const opacity = look.opacity / 100;
  const drawn = { format, opacity, smooth: look.smooth, pieces: look.pieces, cropped: look.cropped };
  const response = await ask("save", { ...question, ...drawn }, input);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = `why.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  say(`Downloaded why.${format}`);
}

async function copy(what, { question, input, link }, say) {
  let text = link;
  let remark = missing(input);
  if (what !== "link") {
    const content = input.text ?? input.name ?? `${input.example}.png`;
    const { runner_up: _, ...asked } = question;
    const beside = { ...input.beside };
    if (beside.similar_to instanceof File) beside.similar_to = beside.similar_to.name;
    const recipe = { ...asked, content, ...beside };
    text = (await (await checked(await postJson("recipe", recipe))).json())[what];
    remark = input.example && !input.text ? "Save the example's picture under that name first." : "";
  }
  if (await toClipboard(text)) say(`Copied. ${remark}`.trim());
  else showForCopying(text);
}

/** Browsers give pages on plain addresses of other machines no clipboard. */
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function showForCopying(text) {
  byId("copying-text").value = text;
  byId("copying").showModal();
  byId("copying-text").select();
}
