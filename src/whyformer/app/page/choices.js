/* What answers: the models to choose from, and the presets. */

import { KINDS } from "./inputs.js";

/** A button for each model; the chosen one is pressed. */
export function showChoices(models, now, choose) {
  const place = document.getElementById("models");
  const buttons = models.map((model) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = model.summary;
    button.append(model.name);
    const kind = document.createElement("span");
    kind.textContent = KINDS[model.kind].many;
    button.append(kind);
    button.setAttribute("aria-pressed", String(model === now));
    button.addEventListener("click", () => model === now || choose(model));
    return button;
  });
  const held = [...place.children].indexOf(document.activeElement);
  place.replaceChildren(...buttons);
  if (held >= 0) buttons[held].focus();
}

/** A list of presets that calls choose(name). */
export function makePresets(presets, choose) {
  const select = document.createElement("select");
  presets.forEach((name) => select.add(new Option(name, name)));
  select.addEventListener("change", () => choose(select.value));
  const label = document.createElement("label");
  label.className = "preset";
  label.append("Preset ", select);
  return label;
}
