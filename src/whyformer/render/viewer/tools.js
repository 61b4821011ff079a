/* What the pages' scripts share: elements, numbers and names as people read them, colours. */
(function () {
  "use strict";

  const fromHex = (text) => [1, 3, 5].map((i) => parseInt(text.trim().slice(i, i + 2), 16));

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  function button(attributes, action, ...children) {
    const node = el("button", { type: "button", ...attributes }, ...children);
    node.addEventListener("click", action);
    return node;
  }

  function number(x) {
    const size = Math.abs(x);
    const text = size === 0 ? "0" : size >= 100 ? size.toFixed(0) : size.toPrecision(2);
    return (x < 0 ? "\u2212" : "") + text;
  }

  function percent(x) {
    const size = Math.abs(100 * x);
    if (size > 0 && size < 0.05) return "< 0.1\u00a0%";
    return (x < 0 ? "\u2212" : "") + size.toFixed(size === 0 || size >= 99.95 ? 0 : 1) + "\u00a0%";
  }

  function ordinal(n) {
    const teen = n % 100 > 10 && n % 100 < 14;
    return n + ((!teen && { 1: "st", 2: "nd", 3: "rd" }[n % 10]) || "th");
  }

  const quote = (text) => `\u201c${text}\u201d`;
  const short = (text) => (text.length > 32 ? text.slice(0, 31) + "\u2026" : text);
  /** A label as it is typed: a space at its ends is seen between quotation marks. */
  const spaced = (label) => (label.trim() === label ? label : `"${label}"`);
  /** What was asked: a class in quotation marks, anything else in its own words. */
  const named = ({ index, label }) =>
    index < 0 ? label : label.trim() === label ? quote(label) : spaced(label);
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const lerp = (a, b, t) => a + (b - a) * t;
  const mix = (a, b, t) => a.map((x, i) => lerp(x, b[i], t));
  const largestOf = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

  // --- colour ------------------------------------------------------------------------------

  /** Red, green, blue and alpha of shares of the maximum: entry 0 is -1, entry 510 is 1. */
  function makePalette(towards, against) {
    return Array.from({ length: 511 }, (_, k) => {
      const t = k / 255 - 1;
      const stops = t < 0 ? against : towards;
      const at = Math.abs(t) * (stops.length - 1);
      const i = Math.min(Math.floor(at), stops.length - 2);
      return [...mix(stops[i], stops[i + 1], at - i), 255 * Math.abs(t) ** 0.75];
    });
  }

  const shade = (palette, t) => palette[Math.round(255 * (1 + clamp(t, -1, 1)))];

  function css([r, g, b, alpha = 255]) {
    return `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)} / ${(alpha / 255).toFixed(3)})`;
  }

  /** Black or white: the better of the two never has less than 4.5:1 (WCAG 2). */
  function inkOn(colour) {
    const [r, g, b] = colour.map((c) => (c <= 10 ? c / 3295 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }

  /** What colours span, as in the pictures: of an image least to most, the top percent alike. */
  function range(values, signed, isImage) {
    const sorted = values.map((value) => (signed ? Math.abs(value) : value)).sort((a, b) => a - b);
    const top = sorted[sorted.length - 1] ?? 0;
    if (!isImage) return [0, Math.max(0, top)];
    const least = signed ? 0 : Math.max(0, sorted[0]);
    const most = sorted[Math.ceil(0.99 * (sorted.length - 1))];
    return [least, most > least ? most : top];
  }

  globalThis.whyformerTools = {
    el, button, number, percent, ordinal, quote, short, spaced, named, clamp, lerp, mix, largestOf,
    fromHex, makePalette, shade, css, inkOn, range,
  };
})();
