/* Surfaces: pictures and texts that are coloured and pointed at. */
(function () {
  "use strict";

  const { el, clamp, lerp, shade, css, inkOn } = globalThis.whyformerTools;

  /** For each of count * zoom places along an axis: two neighbours, the weight of the second.
      Bilinear, as the map that is evaluated; the last of a frame is no neighbour of the next. */
  function neighbours(count, zoom, frames = 1) {
    const each = count / frames;
    return Array.from({ length: count * zoom }, (_, i) => {
      const first = each * Math.floor(i / zoom / each);
      const x = clamp((i + 0.5) / zoom - 0.5, first, first + each - 1);
      const f = x - Math.floor(x);
      return [Math.floor(x), Math.min(Math.floor(x) + 1, first + each - 1), f];
    });
  }

  function drawHeat(canvas, shares, rows, columns, zoom, palette, frames) {
    canvas.width = columns * zoom;
    canvas.height = rows * zoom;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(canvas.width, canvas.height);
    const across = neighbours(columns, zoom, frames);
    let offset = 0;
    for (const [above, below, down] of neighbours(rows, zoom)) {
      for (const [left, right, over] of across) {
        const upper = lerp(shares[above * columns + left], shares[above * columns + right], over);
        const lower = lerp(shares[below * columns + left], shares[below * columns + right], over);
        pixels.data.set(shade(palette, lerp(upper, lower, down)), offset);
        offset += 4;
      }
    }
    context.putImageData(pixels, 0, 0);
  }

  function imageSurface(image, title, frames) {
    const [rows, columns] = image.grid;
    const canvas = el("canvas", { class: "why-heat", role: "img" });
    const hover = el("div", { class: "why-cell why-cell-hover" });
    const chosen = el("div", { class: "why-cell why-cell-chosen" });
    const picture = el("img", { class: "why-picture", src: image.src, alt: title, draggable: "false" });
    const frame = el("div", { class: "why-frame" });
    const erased = el("div", {});
    const layers = [picture, canvas, erased, frame, chosen, hover];
    const node = el("div", { class: "why-stage why-stage-image" }, ...layers);
    node.style.aspectRatio = `${image.width} / ${image.height}`;
    const whole = image.crop?.src ? inPhoto(node, image.crop, title) : node;

    function place(cell, index) {
      cell.hidden = index === null;
      cell.style.left = `${(100 * (index % columns)) / columns}%`;
      cell.style.top = `${(100 * Math.floor(index / columns)) / rows}%`;
      cell.style.width = `${100 / columns}%`;
      cell.style.height = `${100 / rows}%`;
    }

    /** Where it was asked, in shares of the picture: left, top, right, bottom. */
    function showFrame(box) {
      frame.hidden = !box;
      if (!box) return;
      const [left, top, right, bottom] = box.map((edge) => 100 * clamp(edge, 0, 1));
      frame.style.left = `${left}%`;
      frame.style.top = `${top}%`;
      frame.style.width = `${right - left}%`;
      frame.style.height = `${bottom - top}%`;
    }

    function paint({ shares, label, state, palette, box }) {
      showFrame(box);
      const zoom = state.smooth ? Math.max(1, Math.round(240 / Math.max(rows, columns))) : 1;
      drawHeat(canvas, shares, rows, columns, zoom, palette, frames);
      canvas.classList.toggle("why-crisp", !state.smooth);
      canvas.style.opacity = state.opacity / 100;
      canvas.setAttribute("aria-label", `Heat map: ${label}`);
    }

    function at(event) {
      const box = node.getBoundingClientRect();
      const x = Math.floor(((event.clientX - box.left) / box.width) * columns);
      const y = Math.floor(((event.clientY - box.top) / box.height) * rows);
      return clamp(y, 0, rows - 1) * columns + clamp(x, 0, columns - 1);
    }

    function erase(patches) {
      const cells = patches.map(() => el("div", { class: "why-cell why-cell-erased" }));
      cells.forEach((cell, i) => place(cell, patches[i]));
      erased.replaceChildren(...cells);
    }

    const mark = (state) => (place(hover, state.hover), place(chosen, state.chosen));
    return { node, whole, paint, at, mark, erase, stride: columns };
  }

  /** The stage in its place in the photo that it was cut out of. */
  function inPhoto(stage, crop, title) {
    const [top, left, bottom, right] = crop.box;
    const photo = el("img", { class: "why-unseen", src: crop.src, alt: `${title}, the whole photo`, draggable: "false" });
    const whole = el("div", { class: "why-photo" }, photo, stage);
    whole.style.aspectRatio = `${crop.width} / ${crop.height}`;
    stage.style.left = `${(100 * left) / crop.width}%`;
    stage.style.top = `${(100 * top) / crop.height}%`;
    stage.style.width = `${(100 * (right - left)) / crop.width}%`;
    stage.style.height = `${(100 * (bottom - top)) / crop.height}%`;
    return whole;
  }

  function textSurface(pieces, units) {
    const node = el("div", { class: "why-stage why-stage-text", dir: "auto" });
    const spans = units.map((unit) => {
      const [first, ...rest] = unit.map((i) => pieces[i]);
      const text = first.text + rest.map((piece) => piece.gap + piece.text).join("");
      const unknown = unit.map((i) => pieces[i].unknown).find(Boolean) || "";
      const kind = first.content ? "why-unit" : "why-unit why-special";
      const span = el("span", { class: kind }, text === unknown ? text : text + unknown);
      node.append(first.gap, span);
      return span;
    });
    // A box reaches into a space beside it, and never over a neighbour's letters.
    spans.forEach((span, i) => {
      const next = units[i + 1];
      span.classList.toggle("why-gap-before", i === 0 || pieces[units[i][0]].gap !== "");
      span.classList.toggle("why-gap-after", next === undefined || pieces[next[0]].gap !== "");
    });

    function paint({ shares, tint }) {
      spans.forEach((span, i) => {
        const colour = tint(clamp(shares[i], -1, 1));
        const visible = Math.abs(shares[i]) > 0.03;
        span.style.backgroundColor = visible ? css(colour) : "";
        span.style.color = visible ? inkOn(colour) : "";
      });
    }

    function mark(state) {
      spans.forEach((span, i) => {
        span.classList.toggle("why-unit-hover", i === state.hover);
        span.classList.toggle("why-unit-chosen", i === state.chosen);
      });
    }

    const erase = (words) =>
      spans.forEach((span, i) => span.classList.toggle("why-unit-erased", words.includes(i)));
    const at = (event) => (spans.includes(event.target) ? spans.indexOf(event.target) : null);
    return { node, whole: node, paint, at, mark, erase, stride: 1 };
  }

  globalThis.whyformerSurfaces = { drawHeat, imageSurface, textSurface };
})();
