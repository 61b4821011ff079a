/* All heads of all blocks at a glance: a thumbnail each, blocks from above, the mean first. */

import { ask } from "./api.js";

const { el, fromHex, largestOf, makePalette, mix, quote, range } = globalThis.whyformerTools;
const { drawHeat } = globalThis.whyformerSurfaces;
const MAPS = ["attention", "gradient", "relevance", "product"];
const AGAINST = fromHex("#348ad6");
/** Words in a line of a strip: short texts have one line. */
const LINE = 24;

const byId = (id) => document.getElementById(id);

/** open(block, head) opens a thumbnail's block; fail(error) says what went wrong. */
export function makeGlance(open, fail) {
  const select = byId("glance-map");
  select.append(...MAPS.map((name) => new Option(name)));
  let [running, asked, heads, last, thumbs, at] = [null, "", null, null, [], [0, 0]];

  /** Shows the thumbnails of a question. */
  async function update(question, input) {
    last = [question, input];
    const wanted = JSON.stringify([question, select.value, input.key]);
    if (wanted === asked) return;
    running?.abort();
    running = new AbortController();
    asked = wanted;
    try {
      const response = await ask("heads", { ...question, map: select.value }, input, running.signal);
      heads = await response.json();
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      byId("glance").hidden = true;
      asked = "";
      fail(error);
    }
  }

  function draw() {
    const rows = heads.blocks.map(unpacked);
    const every = rows.flat();
    const signed = every.some((values) => values.some((value) => value < 0));
    const spans = every.map((values) => range(values, signed, Boolean(heads.grid)));
    const all = [Math.min(...spans.map(([least]) => least)), largestOf(spans.map(([, most]) => most))];
    const spanOf = (values) => (byId("glance-shared").checked ? all : spans[every.indexOf(values)]);
    const palette = paletteOf(signed);
    const columns = Math.max(...rows.map((row) => row.length));
    const names = Array.from({ length: columns }, (_, i) => i ? `${i}` : "Mean");
    const cells = ["", ...names].map((name) => el("span", { class: "glance-head" }, name));
    thumbs = rows.map((row, block) => row.map((values, column) => {
      const [least, most] = spanOf(values);
      const share = (value) =>
        signed ? value / (most || 1) : Math.max(0, (value - least) / (most - least || 1));
      return thumbnail(values.map(share), block, column, palette);
    }));
    thumbs.forEach((row, block) => {
      const rest = Array.from({ length: columns - row.length }, () => el("span", {}));
      cells.push(el("span", {}, `${block + 1}`), ...row, ...rest);
    });
    const grid = byId("glance-grid");
    const held = grid.contains(document.activeElement);
    grid.style.setProperty("--columns", columns);
    grid.classList.toggle("glance-texts", !heads.grid);
    grid.replaceChildren(...cells);
    byId("glance-note").textContent = heads.note;
    byId("glance").hidden = false;
    mark(...at);
    if (held) thumbs[at[0]]?.[at[1]]?.focus();
  }

  function unpacked({ low, high, data }) {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const each = bytes.length / low.length;
    return low.map((least, i) => {
      const own = bytes.subarray(i * each, (i + 1) * each);
      return Array.from(own, (byte) => least + (byte / 255) * (high[i] - least));
    });
  }

  /** The viewer's colours: a picture's on a dark ground, a text's hues on the page's. */
  function paletteOf(signed) {
    const colour = (name) =>
      fromHex(getComputedStyle(document.body).getPropertyValue(`--why-${name}`));
    if (heads.grid) return makePalette(heads.heat.map(fromHex), [AGAINST, AGAINST]);
    const surface = colour("surface");
    const [towards, against] = signed ? [1, 0] : [0, 0];
    const solid = (t, hue) => [...mix(surface, colour(`hue-${hue}`), Math.abs(t)), 255];
    const shares = Array.from({ length: 511 }, (_, k) => k / 255 - 1);
    return shares.map((t) => solid(t, t < 0 ? against : towards));
  }

  function thumbnail(shares, block, column, palette) {
    const canvas = el("canvas", {});
    const [height, width] = heads.grid ?? lines(shares.length);
    const blank = Array(height * width - shares.length).fill(0);
    drawHeat(canvas, [...shares, ...blank], height, width, 1, palette);
    const name = `Block ${block + 1}, ${column ? `head ${column}` : "mean of the heads"}`;
    const node = el("button", { type: "button", "aria-label": name, title: name }, canvas);
    const strongest = heads.words[shares.indexOf(Math.max(...shares))];
    if (strongest) node.title += `: most at ${quote(strongest)}`;
    if (!heads.grid) canvas.style.height = `${height === 1 ? 14 : 5 * height}px`;
    node.addEventListener("click", () => open(block, column ? column - 1 : null));
    node.addEventListener("keydown", (event) => step(event, block, column));
    return node;
  }

  function lines(count) {
    const width = Math.min(count, Math.max(LINE, Math.ceil(Math.sqrt(4 * count))));
    return [Math.ceil(count / width), width];
  }

  /** The arrow keys lead from one thumbnail to the next; the tab key leads out. */
  function step(event, block, column) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const next = by && thumbs[block + by[0]]?.[column + by[1]];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  /** Which block and head the maps below are of. */
  function mark(block, column) {
    at = [block, column];
    thumbs.flat().forEach((thumb) => {
      const on = thumb === thumbs[block]?.[column];
      thumb.setAttribute("aria-pressed", String(on));
      thumb.tabIndex = on ? 0 : -1;
      if (on) reveal(thumb);
    });
  }

  function reveal({ offsetTop: top, offsetHeight: height }) {
    const grid = byId("glance-grid");
    const seen = top >= grid.scrollTop && top + height <= grid.scrollTop + grid.clientHeight;
    if (!seen) grid.scrollTop = top - grid.clientHeight / 2;
  }

  select.addEventListener("change", () => update(...last));
  byId("glance-shared").addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => heads && draw());
  return {
    update,
    mark: (block, head) => mark(block, head === null ? 0 : head + 1),
  };
}
