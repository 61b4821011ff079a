/* The page of many inputs: a card for each, filters, and what the inputs of a class share.

   whyformerGallery(root, data) builds the page of one document in root. Strings of the document only
   ever become text nodes and attributes. It stands on the tools of tools.js. */
(function () {
  "use strict";

  const { el, button, number, percent, spaced, mix, css, inkOn, fromHex } =
    globalThis.whyformerTools;
  /** Cards that are built at once; more follow when the reader comes to the end. */
  const BATCH = 60;
  /** So many classes stand open above the cards. */
  const FEW = 12;
  const count = (n, what) => `${n}\u00a0${what}${n === 1 ? "" : "s"}`;
  const amount = (c) =>
    c.probability !== null ? percent(c.probability) : c.logit === null ? "" : number(c.logit);

  function whyformerGallery(root, data) {
    const { cards, classes } = data;
    const judged = cards.filter((card) => card.right !== null);
    const texts = cards.some((card) => card.words);
    const state = { search: "", mistakes: false, predicted: "", true: "", order: "name" };
    let [found, shown] = [[], 0];

    const searched = cards.map((card) => `${card.file}\n${card.text || ""}`.toLowerCase());

    // --- what the inputs of a class share ----------------------------------------------------

    function meanMap(mean) {
      const picture = { src: mean.map, alt: `mean map of ${mean.name}`, loading: "lazy" };
      const caption = el("figcaption", {}, mean.name, " ", el("small", {}, count(mean.images, "image")));
      return el("figure", { class: "why-mean" }, el("img", picture), caption);
    }

    function meanWords(mean) {
      const most = Math.max(...mean.words.map((word) => Math.abs(word.share))) || 1;
      const rows = mean.words.map(({ text, share, texts }) => {
        const bar = el("span", { class: mean.signed && share >= 0 ? "why-for" : "" });
        bar.style.width = `${(100 * Math.abs(share)) / most}%`;
        return el("tr", {}, el("th", { scope: "row" }, spaced(text)),
          el("td", { class: "why-mean-bar" }, bar), el("td", {}, percent(share)), el("td", {}, texts));
      });
      const heads = ["word", "", "share", "texts"].map((name) => el("th", { scope: "col" }, name));
      const table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
      const title = el("h3", {}, mean.name, " ", el("small", {}, count(mean.texts, "text")));
      return el("section", { class: "why-mean" }, title, table);
    }

    function means(title, sentence, of, make, className) {
      const some = classes.filter((mean) => mean[of]);
      if (!some.length) return null;
      const list = el("div", { class: `why-mean-list ${className}` }, ...some.map(make));
      const box = el("details", { class: "why-means" }, el("summary", {}, title), el("p", {}, sentence), list);
      box.open = some.length <= FEW;
      return box;
    }

    // --- filters -------------------------------------------------------------------------------

    function bound(input, key, event = "change") {
      input.addEventListener(event, () => {
        state[key] = input.type === "checkbox" ? input.checked : input.value;
        update();
      });
      return input;
    }

    const labelled = (name, input) => el("label", {}, name, input);

    /** A choice among the classes that cards have under a key; null where there is one at most. */
    function classFilter(name, key) {
      const groups = new Map();
      for (const card of cards) {
        const c = card[key];
        if (c) groups.set(c.index, { name: c.name, n: (groups.get(c.index)?.n || 0) + 1 });
      }
      if (groups.size < 2) return null;
      const sorted = [...groups].sort(([, a], [, b]) => a.name.localeCompare(b.name));
      const options = sorted.map(([index, { name, n }]) => el("option", { value: index }, `${name} (${n})`));
      const every = el("option", { value: "" }, "all");
      return labelled(name, bound(el("select", {}, every, ...options), key));
    }

    function sorter() {
      const orders = { name: "name", surest: "surest first", unsurest: "least sure first" };
      const options = Object.entries(orders).map(([value, text]) => el("option", { value }, text));
      return labelled("Sort by", bound(el("select", {}, ...options), "order"));
    }

    const mistakes = bound(el("input", { type: "checkbox" }), "mistakes");
    const sortable = cards.some((card) => card.predicted && card.predicted.probability !== null);
    const filters = el("div", { class: "why-filters", role: "search", "aria-label": "Inputs" },
      labelled(texts ? "Search names and texts" : "Search names",
        bound(el("input", { type: "search" }), "search", "input")),
      classFilter("Predicted", "predicted"),
      classFilter("True class", "true"),
      sortable ? sorter() : null,
      judged.length ? el("label", { class: "why-check" }, mistakes, "Mistakes only") : null);

    // --- cards ---------------------------------------------------------------------------------

    function textBox(card) {
      const styles = getComputedStyle(viewer);
      const colour = (name) => fromHex(styles.getPropertyValue(`--why-${name}`));
      const [surface, blue, orange] = ["surface", "hue-0", "hue-1"].map(colour);
      const [towards, against] = card.signed ? [orange, blue] : [blue, surface];
      const box = el("div", { class: "why-stage-text", dir: "auto" });
      for (const [gap, word, strength] of card.words) {
        const ground = mix(surface, strength < 0 ? against : towards, Math.abs(strength));
        const span = el("span", { class: "why-unit" }, word);
        if (Math.abs(strength) > 0.03) {
          span.style.backgroundColor = css(ground);
          span.style.color = inkOn(ground);
        }
        box.append(gap, span);
      }
      if (card.more) box.append(" \u2026");
      return box;
    }

    function picture(card) {
      if (card.words) return textBox(card);
      if (!card.thumbnail) return null;
      const alt = `map of ${card.file}`;
      return el("img", { src: card.thumbnail, alt, loading: "lazy", decoding: "async" });
    }

    function classLine(attributes, before, c) {
      const name = el("span", { class: "why-said", title: c.label }, c.name);
      return el("p", attributes, ...before, name, " ", el("span", { class: "why-amount" }, amount(c)));
    }

    function makeCard(card) {
      const { predicted, right } = card;
      const other = card.asked && card.asked.index !== predicted?.index ? card.asked : null;
      const mark = { true: "\u2713", false: "\u2717" }[right];
      const told = mark ? [el("span", { class: "why-mark", role: "img", "aria-label": right ? "right" : "mistake" }, mark)] : [];
      const truth = !card.true || right ? null
        : el("p", {}, "true: ", el("span", { class: "why-truth", title: card.true.label }, card.true.name));
      const file = el("span", { class: "why-file" }, card.file);
      return el("li", { class: `why-card${right === false ? " why-wrong" : ""}` },
        el("a", { href: card.href }, picture(card), file),
        predicted ? classLine({}, told, predicted) : null,
        truth,
        other ? classLine({ class: "why-quiet" }, ["shown: why "], other) : null,
        card.strongest ? el("p", { class: "why-quiet" }, `strongest: ${card.strongest}`) : null);
    }

    const list = el("ol", { class: `why-cards${texts ? " why-cards-text" : ""}` });
    const told = el("p", { class: "why-count", role: "status" });
    const further = button({ class: "why-toggle why-further" }, showMore, "Show more");

    function showMore() {
      list.append(...found.slice(shown, shown + BATCH).map((card) => makeCard(card)));
      shown = Math.min(shown + BATCH, found.length);
      further.hidden = shown >= found.length;
    }

    function update() {
      const wanted = state.search.trim().toLowerCase();
      const fits = (card, key) => state[key] === "" || String(card[key]?.index) === state[key];
      found = cards.filter((card, i) =>
        searched[i].includes(wanted) && !(state.mistakes && card.right !== false) &&
        fits(card, "predicted") && fits(card, "true"));
      const sure = (card) => card.predicted?.probability ?? -1;
      if (state.order === "surest") found.sort((a, b) => sure(b) - sure(a));
      if (state.order === "unsurest") found.sort((a, b) => sure(a) - sure(b));
      told.textContent = found.length === cards.length
        ? count(cards.length, "input") : `${found.length} of ${count(cards.length, "input")}`;
      shown = 0;
      list.replaceChildren();
      showMore();
    }

    const right = judged.filter((card) => card.right).length;
    const facts = [...data.facts, count(cards.length, "input")];
    if (judged.length) {
      facts.push(`${right} of ${judged.length} right (${percent(right / judged.length)}), by the names of their folders`);
    }
    const viewer = el("div", { class: "why-viewer why-gallery" },
      el("header", { class: "why-header" },
        el("h1", { class: "why-title" }, data.title),
        el("p", { class: "why-meta" }, ...facts.map((fact) => el("span", {}, fact)),
          el("span", {}, el("a", { href: data.table }, data.table))),
        ...data.notes.map((note) => el("p", { class: "why-meta" }, note))),
      means("Mean maps", data.sentences.map, "images", meanMap, ""),
      means("Strongest words", data.sentences.words, "texts", meanWords, "why-mean-list-words"),
      filters, told, list, further);

    root.replaceChildren(viewer);
    update();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
    const reached = new IntersectionObserver((seen) => {
      if (!seen.some((entry) => entry.isIntersecting)) return;
      showMore();
      reached.unobserve(further);
      reached.observe(further); // which tells again whether it is in sight
    }, { rootMargin: "600px" });
    reached.observe(further);
  }

  globalThis.whyformerGallery = whyformerGallery;
})();
