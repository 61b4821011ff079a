/* The explanation viewer: the script of the HTML report and of the web page.

   whyformerViewer(root, data) builds the view of one document in root and returns a function that
   takes it down again. Strings of the document only ever become text nodes and attributes.

   A host hears how the view is set: host.changed(state). It may also answer further questions: then
   every class of the document and every one of host.methods is offered, and host.ask(change) gets
   the class, the method or the comparison of all methods that was clicked. host.search stands below
   the classes, host.options below the methods. A host.eraser gets the clicks while it is on, by the
   numbers of patches or words; eraser.shown(data, view) tells it what it may ask of the view. */
(function () {
  "use strict";

  const {
    el, button, number, percent, ordinal, quote, short, spaced, named, mix, largestOf, fromHex,
    makePalette, shade, css, range,
  } = globalThis.whyformerTools;
  const { imageSurface, textSurface } = globalThis.whyformerSurfaces;
  const MOST_CLASSES = 8;
  const HUES = 3;
  const AGAINST = fromHex("#348ad6");
  const [FOR_HUE, AGAINST_HUE] = [1, 0];

  // --- scores ------------------------------------------------------------------------------

  const decoded = new WeakMap();
  function rowOf(view, token) {
    if (!decoded.has(view)) {
      decoded.set(view, Uint8Array.from(atob(view.rows.data), (c) => c.charCodeAt(0)));
    }
    const n = view.rows.scale.length;
    const bytes = decoded.get(view).subarray(token * n, (token + 1) * n);
    return Array.from(bytes, (byte) => (byte / 255) * view.rows.scale[token]);
  }

  /** One value a unit, a word's being its strongest piece's; null for the unit whose row it is,
      and for a sink, which has no part in the scale. */
  function unitValues(view, units, chosen) {
    const strongest = (scores) => units.map((unit) =>
      unit.sunk ? null : largestOf(unit.map((token) => scores[token])));
    if (chosen === null || !view.rows) return strongest(view.scores);
    const rows = units[chosen].map((token) => rowOf(view, token));
    const values = strongest(rows[0].map((_, j) => largestOf(rows.map((row) => row[j]))));
    values[chosen] = null;
    return values;
  }

  /** How to find the control in the next document that holds the keyboard's focus in this one. */
  function focusable(root, node) {
    if (!node || !root.contains(node)) return null;
    for (const name of ["data-class", "data-method", "data-all"]) {
      if (node.hasAttribute(name)) return `[${name}="${CSS.escape(node.getAttribute(name))}"]`;
    }
    return node.classList.contains("why-stage") ? ".why-stage" : null;
  }

  // --- the viewer ----------------------------------------------------------------------------

  function whyformerViewer(root, data, host = null) {
    const chosenColours = data.start?.colours || {};
    const diverging = chosenColours.diverging?.map((half) => half.map(fromHex));
    const parts = [data, ...(data.others || [])].map(makePart);
    const isImage = parts[0].isImage;
    const views = data.views;
    const methods = [...new Set(views.map((view) => view.method))];
    const asks = Boolean(host?.ask);
    const eraser = host?.eraser;
    const offered = asks ? host.methods : methods.map((name) => ({ name }));
    const targets = [...new Set(views.map((view) => view.target))];
    const asked = targets.flatMap((target) => data.classes.filter((c) => c.index === target));
    const others = data.classes.filter((c) => !asked.includes(c));
    const spare = MOST_CLASSES - asked.length;
    const listed = data.classes.filter((c) => asked.includes(c) || others.indexOf(c) < spare);
    // Words of an answer, or findings, are all here: none of them is another question.
    const own = asked.length > 0 && asked.every((c) => c.index < 0);
    const usual = { together: asks && (!own || asked.length < 3), all: false, smooth: true, opacity: 80, pieces: false, shared: false, cropped: false, playing: false };
    const target = (asked.find((c) => c.index === data.start?.target) ?? asked[0])?.index ?? null;
    const state = { method: methods[0], hover: null, chosen: null, ...usual, ...data.start, target };
    let [panels, built, pointed] = [[], "", parts[0]];

    /** One input of the model: its views are in the order of the first one's. */
    function makePart(part) {
      const pictured = Boolean(part.image);
      const heat = pictured ? (chosenColours.heat || part.heat).map(fromHex) : null;
      const plain = pictured ? makePalette(heat, [AGAINST, AGAINST]) : null;
      const signed = pictured && diverging ? makePalette(...diverging) : plain;
      return { ...part, isImage: pictured, palettes: { plain, signed }, units: [] };
    }

    const find = (method, target) =>
      views.find((v) => v.method === method && (v.target === target || v.target === null));
    const sameForAll = (method) => find(method, null) !== undefined;
    const classOf = (view) => asked.findIndex((c) => c.index === view.target);
    const byIndex = asked.map((c) => c.index).sort((a, b) => a - b);
    const hueOf = (rank) => (rank < 0 ? "none" : byIndex.indexOf(asked[rank].index) % HUES);
    const output = (c) => (c.logit === null ? "" : number(c.logit));
    const amount = (c) => (c.probability === null ? output(c) : percent(c.probability));
    const classTitle = (rank) =>
      rank < 0 ? "Every class" : [spaced(asked[rank].label), amount(asked[rank])].filter(Boolean).join(" \u00b7 ");

    function unitName(part, index) {
      const text = () => part.units[index].map((i) => part.pieces[i].text).join("");
      if (!part.isImage) return quote(short(text()));
      const columns = part.image.grid[1];
      if (part.seconds && part.image.grid[0] === 1) {
        return `${((part.seconds * (index + 0.5)) / columns).toFixed(2)} s`;
      }
      return `row ${Math.floor(index / columns) + 1}, column ${(index % columns) + 1}`;
    }

    function set(changes) {
      Object.assign(state, changes);
      if (!find(state.method, state.target)) {
        if ("target" in changes) state.method = views.find((v) => v.target === state.target).method;
        else state.target = views.find((v) => v.method === state.method).target;
      }
      update();
      host?.changed(state);
    }

    // Controls are built once, so that the keyboard's focus stays where it is.
    const refreshers = [];

    function toggle(attributes, isOn, change, ...children) {
      return pressable(attributes, isOn, () => set(change()), ...children);
    }

    /** A toggle of the question itself: a host answers it with another document. */
    function choice(attributes, isOn, change, ...children) {
      const act = asks ? () => host.ask(change()) : () => set(change());
      return pressable(attributes, isOn, act, ...children);
    }

    function pressable(attributes, isOn, act, ...children) {
      const node = button(attributes, act, ...children);
      refreshers.push(() => node.setAttribute("aria-pressed", String(isOn())));
      return node;
    }

    function either(label, key, names, also = {}) {
      const halves = Object.entries(names).map(([name, value]) => {
        const change = () => ({ [key]: value, ...also });
        return toggle({ class: "why-half" }, () => state[key] === value, change, name);
      });
      return el("div", { class: "why-either", role: "group", "aria-label": label }, ...halves);
    }

    function classRow(c) {
      const fill = el("span", { class: "why-fill" });
      fill.style.width = `${100 * (c.probability || 0)}%`;
      const parts = [
        el("span", { class: "why-name", title: c.label }, spaced(c.label)),
        el("span", { class: "why-amount" }, amount(c)),
        c.probability === null ? null : el("span", { class: "why-bar" }, fill),
      ];
      const rank = asked.indexOf(c);
      if (rank < 0 && !asks) return el("div", { class: "why-class why-class-plain" }, ...parts);
      if (!isImage && rank >= 0) fill.style.backgroundColor = `var(--why-hue-${hueOf(rank)})`;
      const isOn = () => rank >= 0 && (state.together || state.target === c.index);
      const change = () => ({ target: c.index, together: false });
      const press = c.index < 0 ? toggle : choice;
      return press({ class: "why-class", "data-class": c.index }, isOn, change, ...parts);
    }

    function methodRow({ name, summary = "", class_specific = !sameForAll(name) }) {
      const parts = [el("span", { class: "why-name" }, name)];
      if (!class_specific) parts.push(el("span", { class: "why-amount" }, "same for every class"));
      const isOn = () => !state.all && state.method === name;
      const attributes = { class: "why-method", "data-method": name };
      if (summary) attributes.title = summary;
      return choice(attributes, isOn, () => ({ method: name, all: false }), ...parts);
    }

    function methodRows() {
      const rare = offered.filter((method) => method.on_request);
      const rows = offered.filter((method) => !rare.includes(method)).map(methodRow);
      if (!rare.length) return rows;
      const more = el("details", { class: "why-more" }, el("summary", {}, "More methods"));
      more.append(el("div", { class: "why-methods" }, ...rare.map(methodRow)));
      more.open = rare.some((method) => method.name === state.method);
      return [...rows, more];
    }

    function group(title, className, rows, below = null) {
      if (!rows.length) return null;
      const heading = el("h2", { class: "why-heading" }, title);
      const attributes = { class: "why-group", role: "group", "aria-label": title };
      return el("section", attributes, heading, el("div", { class: className }, ...rows), below);
    }

    function opacitySlider() {
      const slider = el("input", { type: "range", min: 0, max: 100, value: state.opacity });
      slider.addEventListener("input", () => set({ opacity: Number(slider.value) }));
      return el("label", { class: "why-slider" }, "Opacity", slider);
    }

    const method = el("span", { class: "why-code" });
    const facts = [el("span", {}, data.model), method, el("span", {}, `preset ${data.preset}`)];
    const question = el("p", { class: "why-question", "aria-live": "polite" });
    const back = button({ class: "why-back" }, leaveRow, "Back to the class", el("kbd", {}, "Esc"));
    const banner = el("div", { class: "why-banner" }, question, back);
    const flip = () => ({ together: !state.together });
    const pair = toggle({ class: "why-toggle" }, () => state.together, flip, "Side by side");
    const every = { class: "why-toggle", "data-all": "" };
    const compare = choice(every, () => state.all, () => ({ all: !state.all }), "All methods");
    const pictured = parts.some((part) => part.isImage);
    const written = parts.some((part) => !part.isImage);
    const unpoint = { hover: null, chosen: null };
    const tools = [
      pictured ? either("Heat map", "smooth", { Smooth: true, Patches: false }) : null,
      parts.some((part) => part.image?.crop?.src) ? either("Photo", "cropped", { "Whole photo": false, "What it saw": true }) : null,
      data.frames ? either("Frames", "playing", { Strip: false, Play: true }) : null,
      written ? either("Text", "pieces", { Words: false, Pieces: true }, unpoint) : null,
      asked.length > 1 && (own || !asks) ? pair : null,
      offered.length > 1 ? compare : null,
      eraser?.button,
      asked.length > 1
        ? either("Scale", "shared", { "Own scale": false, "One scale": true })
        : null,
      pictured ? opacitySlider() : null,
    ];
    const titles = {
      multi_label_classification: "Classes, each on its own",
      regression: "Output",
      next_word: "Next word",
      tags: "Tags",
      answers: "Answers",
      choices: "Endings",
      blanks: "Word in the blank",
    };
    const spoken = own && Boolean(data.others);
    const rail = [
      group(spoken ? "Words" : titles[data.problem] || "Classes", "why-classes", listed.map(classRow), host?.search),
      group("Method", "why-methods", methodRows(), host?.options),
      group("Notes", "why-notes", data.notes.map((note) => el("p", {}, note))),
    ];
    const stages = el("div", {});
    const viewer = el("div", { class: `why-viewer why-kind-${isImage ? "image" : "text"}` },
      el("header", { class: "why-header" },
        el("h1", { class: "why-title" }, data.title),
        el("p", { class: "why-meta" }, ...facts)),
      el("div", { class: "why-body" },
        el("div", { class: "why-rail" }, ...rail),
        el("div", { class: "why-main" }, banner, el("div", { class: "why-tools" }, ...tools),
          eraser?.node, stages)));

    function unitsOf(part) {
      if (part.isImage) return part.views[0].scores.map((_, i) => [i]);
      if (state.pieces) return part.pieces.map((_, i) => [i]);
      const words = new Map();
      part.pieces.forEach((piece, i) => {
        if (piece.content) words.set(piece.word, [...(words.get(piece.word) || []), i]);
      });
      return [...words.values()];
    }

    function makeUnits(part) {
      const units = unitsOf(part);
      units.forEach((unit) => (unit.sunk = unit.some((i) => part.pieces?.[i].sink)));
      return units;
    }

    /** Panels of further inputs have no rows of single tokens, so nothing is chosen there. */
    function makePanel(part) {
      const surface = part.isImage
        ? imageSurface(part.image, data.title, part.frames)
        : textSurface(part.pieces, part.units);
      const node = surface.node;
      node.tabIndex = 0;
      node.setAttribute("role", part.isImage ? "application" : "group");
      node.addEventListener("pointermove", (event) => point(part, surface.at(event)));
      node.addEventListener("pointerleave", () => point(part, null));
      node.addEventListener("click", (event) => choose(part, surface.at(event)));
      node.addEventListener("keydown", (event) => press(part, event, surface.stride));
      const swatch = el("span", { class: "why-swatch" });
      const [name, low, high] = [0, 1, 2].map(() => el("span", {}));
      const ramp = el("span", { class: "why-ramp" });
      const read = el("output", { class: "why-read" });
      const caption = el("figcaption", { class: "why-caption" }, part.isImage ? null : swatch, name);
      const legend = el("div", { class: "why-legend" }, low, ramp, high);
      const foot = el("div", { class: "why-foot" }, read, legend);
      const player = part.sound ? el("audio", { controls: "", src: part.sound }) : null;
      const wide = ["sound", "video"].includes(part.kind) ? " why-panel-wide" : "";
      const seen = part.frames ? el("div", { class: "why-film" }, node) : surface.whole;
      seen.style.setProperty("--why-frames", part.frames ?? 1);
      const figure = el("figure", { class: `why-panel${wide}` }, caption, seen, player, foot);
      return { part, surface, figure, caption, swatch, name, read, ramp, low, high, values: [] };
    }

    function point(part, index) {
      if (index === state.hover && part === pointed) return;
      state.hover = index;
      pointed = part;
      panels.forEach(showPointed);
    }

    function choose(part, index) {
      if (index === null || part !== parts[0]) return;
      if (eraser?.on) return eraser.toggle(numberOf(index));
      set({ hover: index, chosen: index === state.chosen ? null : index });
    }

    /** A unit's number among the patches or words; a special token has none. */
    const numberOf = (index) => (isImage ? index : parts[0].pieces[parts[0].units[index][0]].word);

    /** The patches or words by their scores in the first panel. */
    function strongest() {
      const { values } = panels[0];
      const known = values.flatMap((value, i) => (value === null ? [] : [i]));
      const order = known.sort((a, b) => values[b] - values[a]).map(numberOf);
      return [...new Set(order)].filter((number) => number !== null);
    }

    function showErased() {
      const gone = parts[0].units.flatMap((_, i) => (eraser?.has(numberOf(i)) ? [i] : []));
      const enter = eraser?.on ? "erases or restores a token" : "shows what a token gathered";
      panels.filter((panel) => panel.part === parts[0]).forEach(({ surface }) => {
        surface.erase(gone);
        surface.node.setAttribute("aria-label", `Arrow keys point, Enter ${enter}`);
      });
    }

    function leaveRow() {
      set({ chosen: null });
      panels[0].surface.node.focus({ preventScroll: true });
    }

    function press(part, event, stride) {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -stride, ArrowDown: stride }[event.key];
      const next = state.hover === null || part !== pointed ? 0 : state.hover + step;
      if (step && next >= 0 && next < part.units.length) point(part, next);
      else if (event.key === "Enter" || event.key === " ") choose(part, state.hover);
      else if (!step) return;
      event.preventDefault();
    }

    function showPointed(panel) {
      const { part } = panel;
      const hover = part === pointed ? state.hover : null;
      panel.surface.mark({ hover, chosen: part === parts[0] ? state.chosen : null });
      panel.read.classList.toggle("why-hint", hover === null);
      if (hover === null) {
        const unit = part.isImage ? (part.seconds ? "moment" : "patch") : state.pieces ? "piece" : "word";
        panel.read.textContent = `Point at a ${unit} for its score`;
        return;
      }
      const value = panel.values[hover];
      const known = panel.values.filter((other) => other !== null);
      const total = known.reduce((sum, other) => sum + Math.abs(other), 0) || 1;
      const rank = `${ordinal(1 + known.filter((other) => other > value).length)} of ${known.length}`;
      const facts = [number(value), percent(value / total), rank].join(" \u00b7 ");
      const name = el("b", {}, unitName(part, hover));
      const silent = hover === state.chosen ? "the token itself" : "not coloured: see the notes";
      panel.read.replaceChildren(name, " ", value === null ? silent : facts);
    }

    /** What colours a share of the maximum has: the class's, or for and against. */
    function tintOf(part, view, signed) {
      const styles = getComputedStyle(viewer);
      const colour = (name) => fromHex(styles.getPropertyValue(`--why-${name}`));
      const surface = colour("surface");
      if (part.isImage) {
        const palette = part.palettes[signed ? "signed" : "plain"];
        return { palette, tint: (t) => shade(palette, t) };
      }
      const inks = signed ? diverging : chosenColours.inks && [chosenColours.inks.map(fromHex)];
      if (inks) {
        const table = makePalette(inks[0], inks[1] ?? inks[0]);
        return { tint: (t) => mix(surface, shade(table, t), Math.sqrt(Math.abs(t))) };
      }
      const [towards, against] = signed
        ? [colour(`hue-${FOR_HUE}`), colour(`hue-${AGAINST_HUE}`)]
        : [colour(`hue-${hueOf(classOf(view))}`), surface];
      return { tint: (t) => mix(surface, t < 0 ? against : towards, Math.abs(t)) };
    }

    /** The scores that colours span: a view's own, all inputs', or all that its method says. */
    function spanOf(part, view, signed, chosen) {
      const kin = state.shared ? part.views.filter((v) => v.method === view.method) : [view];
      const ranges = kin.map((other) => {
        if (other.top && chosen === null) return [0, other.top];
        const known = unitValues(other, part.units, chosen).filter((value) => value !== null);
        return range(known, signed, part.isImage);
      });
      return [Math.min(...ranges.map((r) => r[0])), largestOf(ranges.map((r) => r[1]))];
    }

    function paint(panel, view) {
      const { part } = panel;
      const rank = classOf(view);
      const chosen = part === parts[0] ? state.chosen : null;
      const row = chosen !== null && Boolean(view.rows);
      const signed = !row && (view.signed ?? view.scores.some((score) => score < 0));
      const { palette, tint } = tintOf(part, view, signed);
      panel.values = unitValues(view, part.units, chosen);
      const [least, largest] = spanOf(part, view, signed, chosen);
      const share = (value) =>
        signed ? value / (largest || 1) : Math.max(0, (value - least) / (largest - least || 1));
      const shares = panel.values.map((value) => (value === null ? 0 : share(value)));
      const label = question.textContent;
      panel.surface.paint({ shares, label, palette, tint, state, box: view.box });
      const stops = Array.from({ length: 17 }, (_, i) => (signed ? i / 8 - 1 : i / 16));
      const colours = stops.map((t) => css(tint(t)));
      panel.ramp.style.backgroundImage = `linear-gradient(to right, ${colours.join(", ")})`;
      panel.low.textContent = signed ? `against ${number(-largest)}` : number(least);
      panel.high.textContent = signed ? `${number(largest)} for` : `max ${number(largest)}`;
      panel.swatch.style.backgroundColor = css(tint(1));
      const title = state.all ? view.method : classTitle(rank);
      panel.name.textContent = part.part ? `${part.part}: ${title}` : title;
      panel.caption.hidden = !state.together && !state.all && !part.part;
    }

    function asking(shown) {
      if (state.chosen !== null) {
        const token = (isImage ? "the patch in " : "") + unitName(parts[0], state.chosen);
        if (shown.every((view) => view.rows)) return `What ${token} gathered from the others`;
        if (state.all) return `What ${token} gathered, where a method has rows for single tokens`;
        return `${state.method} has no row for a single token: this is still the class`;
      }
      const ranks = [...new Set(shown.map(classOf))].filter((rank) => rank >= 0);
      if (!ranks.length) return "Where it looked, whatever the class";
      const whys = ranks.map((rank) => `why ${named(asked[rank])}`).join(", ");
      return `W${whys.slice(1)}?`;
    }

    /** The views to show; all methods' stand class by class, those of every class last. */
    function chooseViews() {
      const together = state.together && asked.length > 0;
      const targets = together ? asked.map((c) => c.index) : [state.target];
      const names = state.all ? methods : [state.method];
      const found = names.flatMap((name) => targets.map((target) => find(name, target)));
      const shown = [...new Set(found.filter((view) => view))];
      const place = (view) => (classOf(view) < 0 ? asked.length : classOf(view));
      return state.all ? shown.sort((a, b) => place(a) - place(b)) : shown;
    }

    function arrange(shown) {
      parts.forEach((part) => (part.units = makeUnits(part)));
      panels = shown.flatMap(() => parts.map(makePanel));
      const ranks = [...new Set(shown.map(classOf))];
      const grids = (state.all ? ranks : [null]).map((rank) => {
        const of = (i) => classOf(shown[Math.floor(i / parts.length)]);
        const figures = panels.filter((_, i) => rank === null || of(i) === rank);
        const many = figures.length > 1 || state.all ? " why-stages-many" : "";
        const grid = el("div", { class: `why-stages${many}` }, ...figures.map((p) => p.figure));
        if (!state.all) return grid;
        const title = el("h3", { class: "why-heading" }, classTitle(rank));
        return el("section", { class: "why-part" }, title, grid);
      });
      stages.replaceChildren(...grids);
      viewer.classList.toggle("why-pieces", state.pieces);
      viewer.classList.toggle("why-compare", state.all);
    }

    function update() {
      const shown = chooseViews();
      const wanted = `${state.all ? shown.map(classOf) : shown.length} ${state.pieces}`;
      if (built !== wanted) arrange(shown);
      built = wanted;
      refreshers.forEach((refresh) => refresh());
      viewer.classList.toggle("why-playing", state.playing);
      viewer.classList.toggle("why-cropped", state.cropped);
      method.textContent = state.all ? "all methods" : state.method;
      question.textContent = asking(shown);
      banner.classList.toggle("why-banner-row", state.chosen !== null);
      back.hidden = state.chosen === null;
      panels.forEach((panel, i) => {
        const view = shown[Math.floor(i / parts.length)];
        paint(panel, panel.part.views[views.indexOf(view)]);
      });
      panels.forEach(showPointed);
      showErased();
    }

    const ending = new AbortController();
    const onKey = (event) => event.key === "Escape" && state.chosen !== null && leaveRow();
    document.addEventListener("keydown", onKey, ending);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update, ending);
    const held = document.activeElement;
    const again = focusable(root, held);
    root.replaceChildren(viewer);
    set({});
    eraser?.shown(data, { strongest, update: () => set({ chosen: null }) });
    if (again) viewer.querySelector(again)?.focus({ preventScroll: true });
    else if (root.contains(held)) held.focus({ preventScroll: true });
    return () => {
      ending.abort();
      viewer.remove();
    };
  }

  globalThis.whyformerViewer = whyformerViewer;
})();
