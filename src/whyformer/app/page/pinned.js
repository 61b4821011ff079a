/* An explanation that is kept beside the next ones: two inputs, models or methods to compare. */

const byId = (id) => document.getElementById(id);

/** current() tells the document that is shown, and its look; say(sentence) reports. */
export function makePinned(current, say) {
  let takeDown = null;

  function keep() {
    const { shown, look } = current();
    const before = takeDown;
    const start = { ...shown.start, ...look, together: true };
    takeDown = whyformerViewer(byId("pinned-view"), { ...shown, start });
    before?.();
    byId("pinned").hidden = false;
    byId("sides").classList.add("sides-two");
    byId("pinned").scrollIntoView({ block: "nearest" });
    say(`Kept: ${shown.title}. Ask about another input to compare.`);
  }

  function remove() {
    takeDown();
    takeDown = null;
    byId("pinned").hidden = true;
    byId("sides").classList.remove("sides-two");
    (byId("actions").hidden ? byId("view") : byId("keep")).focus();
    say("Removed.");
  }

  byId("keep").addEventListener("click", keep);
  byId("unpin").addEventListener("click", remove);
}
