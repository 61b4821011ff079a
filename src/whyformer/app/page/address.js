/* The permalink: what is asked and how it is shown, in the part of the address behind the #.

   That part never leaves the browser. A picture of one's own does not fit into an address. */

const LONGEST_TEXT = 4000;

/** The settings that an address holds; an empty object for a plain one. */
export function readAddress(hash = location.hash) {
  const fields = new URLSearchParams(hash.slice(1));
  const settings = {};
  for (const name of ["model", "text", "example", "beside", "method", "preset", "rather", "edge", "region"]) {
    if (fields.has(name)) settings[name] = fields.get(name);
  }
  const targets = fields.getAll("class").map(Number).filter(Number.isInteger);
  if (targets.length) settings.targets = targets.slice(0, 2);
  if (fields.has("all")) settings.all = true;
  for (const name of ["position", "write"]) {
    const number = Number(fields.get(name));
    if (fields.get(name) === "every") settings[name] = "every";
    else if (fields.has(name) && Number.isInteger(number)) settings[name] = number;
  }
  const opacity = Number(fields.get("opacity"));
  const look = { smooth: !fields.has("patches"), pieces: fields.has("pieces"), cropped: fields.has("cropped") };
  if (fields.has("opacity") && opacity >= 0 && opacity <= 100) look.opacity = opacity;
  return { ...settings, look };
}

export function makeAddress(state, usual) {
  const { model, input, beside, targets, method, all, preset, look } = state;
  const fields = new URLSearchParams({ model });
  if (input?.example) fields.set("example", input.example);
  else if (input?.text && input.text.length <= LONGEST_TEXT) fields.set("text", input.text);
  if (beside && beside.length <= LONGEST_TEXT) fields.set("beside", beside);
  targets.forEach((index) => fields.append("class", index));
  if (method !== usual.method && !all) fields.set("method", method);
  if (all) fields.set("all", "1");
  for (const name of ["position", "rather", "write", "edge", "region"]) {
    if (state[name] !== usual[name]) fields.set(name, state[name]);
  }
  if (preset !== usual.preset) fields.set("preset", preset);
  if (look.opacity !== usual.opacity) fields.set("opacity", look.opacity);
  if (!look.smooth) fields.set("patches", "1");
  if (look.cropped) fields.set("cropped", "1");
  if (look.pieces) fields.set("pieces", "1");
  return `#${fields}`;
}

/** What somebody who gets the link should know, or nothing. */
export function missing(input) {
  if (input?.file) return "The link holds the settings; send the file along with it.";
  if (!input?.example && input?.text?.length > LONGEST_TEXT) return "The link holds the settings; the text is too long.";
  return "";
}
