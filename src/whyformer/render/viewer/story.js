/* The page of a text that a model wrote: choose a written word, see the words it came from.

   whyformerStory(root, data) builds the page of one document in root and returns a function that
   takes it down again. Strings of the document only ever become text nodes. It stands on the tools
   of tools.js. */
(function () {
  "use strict";

  const { el, button, number, percent, quote, spaced, mix, css, inkOn, fromHex } =
    globalThis.whyformerTools;
  const [FOR, AGAINST] = ["--why-hue-0", "--why-hue-1"];
  /** A cell of the matrix: its sides, and from which on labels fit. */
  const [SMALLEST, LARGEST, LEGIBLE] = [3, 18, 11];
  const TYPE = "11px system-ui, sans-serif";

  const strongest = (values) => values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
  /** Line breaks with a sign to point at, control characters as what they are: no letters. */
  const shownText = ({ text }) =>
    (text.trim() ? text : text.replace(/\n/g, "\u21b5\n")).replace(/[\0-\x08\x0b-\x1f\x7f]/g, "\ufffd");
  /** Where a token is a part of a letter, the letter stands with another one. */
  const UNFINISHED = "\u25cc";

  function whyformerStory(root, data) {
    const { pieces, words, start } = data;
    const signed = words.some((word) => word.scores.some((score, i) => score < 0 && !pieces[i].sink));
    const state = { word: 0, pieces: false, pointed: null };
    let units = [];
    let spans = [];

    const colour = (name) => fromHex(getComputedStyle(viewer).getPropertyValue(name));
    const nameOf = (unit) => {
      const text = unit.map((i) => pieces[i].gap + shownText(pieces[i])).join("");
      return quote(text.trim() || (text ? "\u2423" : UNFINISHED));
    };
    const unitOf = (piece) => units.findIndex((unit) => unit.includes(piece));

    /** Words or pieces; a word never reaches over the end of the prompt. */
    function makeUnits() {
      const found = new Map();
      pieces.forEach((piece, i) => {
        if (!piece.content && !state.pieces && i < start) return;
        const whole = piece.content && !state.pieces;
        const key = whole ? `${piece.word} ${i >= start}` : `piece ${i}`;
        found.set(key, [...(found.get(key) || []), i]);
      });
      return [...found.values()];
    }

    /** How much every unit before the chosen one spoke for it; null for all others and sinks. */
    function valuesOf(chosen) {
      const rows = units[chosen].map((i) => words[i - start].scores);
      return units.map((unit, u) => {
        if (u >= chosen || unit.some((i) => pieces[i].sink)) return null;
        return strongest(unit.flatMap((i) => rows.map((row) => row[i])));
      });
    }

    function sharesOf(values) {
      const most = Math.max(...values.map((value) => Math.abs(value ?? 0)), 0);
      return values.map((value) => (value ?? 0) / (most || 1));
    }

    const tint = (share, paper) => mix(paper, colour(share < 0 ? AGAINST : FOR), Math.abs(share));

    // --- the text ----------------------------------------------------------------------------

    const stage = el("div", {
      class: "why-stage why-stage-text",
      tabindex: 0,
      role: "group",
      "aria-label": "The text. Arrow keys choose a written word",
    });

    function write() {
      units = makeUnits();
      stage.replaceChildren();
      spans = units.map((unit) => {
        const [first, ...rest] = unit.map((i) => pieces[i]);
        const text = shownText(first) + rest.map((piece) => piece.gap + shownText(piece)).join("");
        const span = el("span", { class: "why-unit" }, text || UNFINISHED);
        span.classList.toggle("why-special", !first.content);
        span.classList.toggle("why-wrote", unit[0] >= start);
        stage.append(first.gap, span);
        return span;
      });
      spans.forEach((span, u) => {
        const next = units[u + 1];
        span.classList.toggle("why-gap-before", u === 0 || pieces[units[u][0]].gap !== "");
        span.classList.toggle("why-gap-after", next === undefined || pieces[next[0]].gap !== "");
      });
      viewer.classList.toggle("why-pieces", state.pieces);
    }

    const chosenUnit = () => unitOf(words[state.word].piece);

    function choose(unit) {
      if (unit === null || units[unit][0] < start) return;
      state.word = units[unit][0] - start;
      update();
      spans[unit].scrollIntoView({ block: "nearest" });
    }

    function onKey(event) {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      const edge = { Home: unitOf(words[0].piece), End: units.length - 1 }[event.key];
      if (!step && edge === undefined) return;
      event.preventDefault();
      const next = edge ?? chosenUnit() + step;
      if (next >= 0 && next < units.length) choose(next);
    }

    const at = (event) => (spans.includes(event.target) ? spans.indexOf(event.target) : null);
    stage.addEventListener("click", (event) => choose(at(event)));
    stage.addEventListener("pointermove", (event) => point(at(event)));
    stage.addEventListener("pointerleave", () => point(null));
    stage.addEventListener("keydown", onKey);

    const read = el("output", { class: "why-read" });

    function point(unit) {
      state.pointed = unit;
      const values = valuesOf(chosenUnit());
      read.classList.toggle("why-hint", unit === null);
      if (unit === null) read.textContent = "Click a written word; point at any for its score";
      else read.replaceChildren(el("b", {}, nameOf(units[unit])), " ", told(unit, values));
    }

    function told(unit, values) {
      const chosen = chosenUnit();
      if (unit === chosen) return "the word that is explained";
      if (unit > chosen) return "was not written yet";
      if (values[unit] === null) return "not coloured: see the notes";
      const total = values.reduce((sum, value) => sum + Math.abs(value ?? 0), 0) || 1;
      return `${number(values[unit])} \u00b7 ${percent(values[unit] / total)}`;
    }

    function paint() {
      const chosen = chosenUnit();
      const shares = sharesOf(valuesOf(chosen));
      const paper = colour("--why-surface");
      spans.forEach((span, u) => {
        const visible = Math.abs(shares[u]) > 0.03;
        const ground = tint(shares[u], paper);
        span.style.backgroundColor = visible ? css(ground) : "";
        span.style.color = visible ? inkOn(ground) : "";
        span.classList.toggle("why-later", u > chosen);
        span.classList.toggle("why-unit-chosen", u === chosen);
      });
      const stops = Array.from({ length: 17 }, (_, i) => css(tint(signed ? i / 8 - 1 : i / 16, paper)));
      ramp.style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
    }

    // --- the words that might have been ------------------------------------------------------

    const candidates = el("div", { class: "why-candidates" });

    function listCandidates() {
      const word = words[state.word];
      const isWritten = (entry) => entry.label === word.label;
      const listed = word.candidates.some(isWritten) ? word.candidates : [...word.candidates, word];
      candidates.replaceChildren(...listed.map((entry) => {
        const fill = el("span", { class: "why-fill" });
        fill.style.width = `${100 * entry.probability}%`;
        const taken = isWritten(entry) ? " why-taken" : "";
        return el("div", { class: `why-class why-class-plain${taken}` },
          el("span", { class: "why-name", title: entry.label }, spaced(entry.label)),
          el("span", { class: "why-amount" }, percent(entry.probability)),
          el("span", { class: "why-bar" }, fill));
      }));
    }

    // --- the matrix --------------------------------------------------------------------------

    const canvas = el("canvas", { role: "img", "aria-label": "What each written word came from" });
    const scroll = el("div", { class: "why-scroll" }, canvas);
    const cellRead = el("output", { class: "why-read why-hint" });
    const columns = pieces.length - 1;
    const rowShares = words.map((word) =>
      sharesOf(word.scores.map((score, i) => (pieces[i].sink ? null : score))));
    let cell = LARGEST;
    let margin = 0;

    const label = (piece) => (shownText(piece).trim() || UNFINISHED).slice(0, 14);

    function drawMatrix() {
      const width = scroll.clientWidth || 640;
      const pen = canvas.getContext("2d");
      pen.font = TYPE;
      const room = Math.max(...pieces.map((piece) => pen.measureText(label(piece)).width)) + 14;
      const fitting = Math.floor((width - room) / columns);
      margin = fitting >= LEGIBLE || columns * LEGIBLE <= 1600 ? Math.ceil(room) : 0;
      cell = Math.min(LARGEST, Math.max(margin ? LEGIBLE : SMALLEST, fitting));
      const size = [margin + columns * cell + 1, margin + words.length * cell + 1];
      const sharp = Math.min(devicePixelRatio || 1, 4000 / Math.max(...size));
      [canvas.width, canvas.height] = size.map((side) => Math.ceil(side * sharp));
      [canvas.style.width, canvas.style.height] = size.map((side) => `${side}px`);
      pen.scale(sharp, sharp);
      const [paper, line, text, soft] = ["surface", "line", "ink", "soft"].map((name) => colour(`--why-${name}`));
      const gap = cell > 6 ? 1 : 0;
      rowShares.forEach((shares, row) => shares.forEach((share, column) => {
        const [x, y] = [margin + column * cell, margin + row * cell];
        if (gap) {
          pen.fillStyle = css(line);
          pen.fillRect(x, y, cell + gap, cell + gap);
        }
        pen.fillStyle = css(tint(share, paper));
        pen.fillRect(x + gap, y + gap, cell - gap, cell - gap);
      }));
      if (margin) drawLabels(pen, text, soft);
      pen.strokeStyle = css(soft);
      pen.beginPath();
      pen.moveTo(margin + start * cell + 0.5, margin ? margin - 8 : 0);
      pen.lineTo(margin + start * cell + 0.5, margin + words.length * cell);
      pen.stroke();
      pen.strokeStyle = css(colour("--why-accent"));
      pen.lineWidth = 2;
      pen.strokeRect(margin + 1, margin + state.word * cell + 1, words[state.word].piece * cell - 1, cell - 1);
    }

    function drawLabels(pen, text, soft) {
      pen.font = TYPE;
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      words.forEach((word, row) => {
        pen.fillStyle = css(row === state.word ? colour("--why-accent") : text);
        pen.fillText(label(pieces[word.piece]), margin - 6, margin + (row + 0.55) * cell);
      });
      pen.textAlign = "left";
      pieces.slice(0, -1).forEach((piece, column) => {
        pen.save();
        pen.translate(margin + (column + 0.55) * cell, margin - 6);
        pen.rotate(-Math.PI / 2);
        pen.fillStyle = css(column < start ? soft : text);
        pen.fillText(label(piece), 0, 0);
        pen.restore();
      });
    }

    function cellAt(event) {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left - margin) / cell);
      const row = Math.floor((event.clientY - box.top - margin) / cell);
      const inside = row >= 0 && row < words.length && column < words[row].piece;
      return inside ? [row, column] : null;
    }

    function readCell(event) {
      const found = cellAt(event);
      cellRead.classList.toggle("why-hint", !found || found[1] < 0);
      if (!found || found[1] < 0) {
        cellRead.textContent = "Point at a cell; click a row to choose its word";
        return;
      }
      const [row, column] = found;
      const score = pieces[column].sink ? "not coloured: see the notes" : number(words[row].scores[column]);
      const [to, from] = [words[row].piece, column].map((i) => nameOf([i]));
      cellRead.replaceChildren(el("b", {}, `${to} from ${from}`), " ", score);
    }

    canvas.addEventListener("pointermove", readCell);
    canvas.addEventListener("click", (event) => {
      const found = cellAt(event);
      if (!found) return;
      state.word = found[0];
      update();
    });

    // --- the page ----------------------------------------------------------------------------

    const question = el("p", { class: "why-question", "aria-live": "polite" });
    const ramp = el("span", { class: "why-ramp" });
    const legend = el("div", { class: "why-legend" },
      el("span", {}, signed ? "against" : "0"), ramp, el("span", {}, signed ? "for" : "most"));
    const halves = Object.entries({ Words: false, Pieces: true }).map(([name, value]) => {
      const half = button({ class: "why-half" }, () => change(value), name);
      return [half, value];
    });
    const tools = el("div", { class: "why-tools" },
      el("div", { class: "why-either", role: "group", "aria-label": "Text" }, ...halves.map(([half]) => half)));
    const facts = [data.model, data.method, `preset ${data.preset}`, `${words.length} tokens written`];
    const group = (title, node) =>
      el("section", { class: "why-group", role: "group", "aria-label": title },
        el("h2", { class: "why-heading" }, title), node);
    const notes = el("div", { class: "why-notes" }, ...data.notes.map((note) => el("p", {}, note)));
    const viewer = el("div", { class: "why-viewer why-kind-text why-story" },
      el("header", { class: "why-header" },
        el("h1", { class: "why-title" }, data.title),
        el("p", { class: "why-meta" }, ...facts.map((fact) => el("span", {}, fact)))),
      el("div", { class: "why-body" },
        el("div", { class: "why-rail" },
          group("What might have followed", candidates),
          data.notes.length ? group("Notes", notes) : null),
        el("div", { class: "why-main" },
          el("div", { class: "why-banner" }, question), tools, stage,
          el("div", { class: "why-foot" }, read, legend),
          el("section", { class: "why-matrix" },
            el("h2", { class: "why-heading" },
              "Every word at once: rows were written, columns stand before them, each row on its own scale"),
            scroll, el("div", { class: "why-foot" }, cellRead)))));

    function change(toPieces) {
      state.pieces = toPieces;
      write();
      update();
    }

    function update() {
      halves.forEach(([half, value]) => half.setAttribute("aria-pressed", String(value === state.pieces)));
      const unit = units[chosenUnit()];
      question.textContent = `Why ${nameOf(unit)}?`;
      listCandidates();
      paint();
      point(state.pointed);
      drawMatrix();
    }

    root.replaceChildren(viewer);
    cellRead.textContent = "Point at a cell; click a row to choose its word";
    write();
    update();
    const ending = new AbortController();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update, ending);
    const watching = new ResizeObserver(drawMatrix);
    watching.observe(scroll);
    return () => {
      ending.abort();
      watching.disconnect();
      viewer.remove();
    };
  }

  globalThis.whyformerStory = whyformerStory;
})();
