// Two texts side by side, with the words marked that differ.

import { counted, make, shortened, visible } from "./dom.js";
import { filling, nearness, notice, parametersOf, picture, textField } from "./parts.js";
import { call } from "./service.js";

const MOST_STRETCHES = 4000; // marked ones; a browser is slow with more

export function compareView() {
  const left = textField({ id: "left", label: "One text", placeholder: "Paste a text, or drop a file.", rows: 8, asked });
  const right = textField({ id: "right", label: "Another text", placeholder: "Paste a text, or drop a file.", rows: 8, asked });
  const found = make("section", { class: "found", "aria-label": "Comparison" });
  const view = make(
    "form",
    {
      class: "view compare",
      onsubmit: (event) => {
        event.preventDefault();
        ask();
      },
    },
    make("h1", {}, "How near are two texts, and where do they differ?"),
    make("div", { class: "panes" }, left.element, right.element),
    make("div", { class: "actions" }, make("button", {}, "Compare"), make("kbd", {}, "Ctrl Enter")),
    found,
  );

  /** After a file or a pasted text came in: the other text may not be there yet. */
  function asked(given) {
    if (!given || (left.text.trim() && right.text.trim())) ask();
  }

  // What is pasted into an empty field is a whole text.
  for (const { area } of [left, right]) {
    area.addEventListener("paste", () => area.value || setTimeout(() => asked(true)));
  }

  function ask() {
    const missing = [left, right].find((field) => !field.text.trim());
    if (missing) {
      found.replaceChildren(notice("empty", "Two texts are needed", "Fill in the other one."));
      missing.area.focus();
      return;
    }
    const texts = { left: left.text, right: right.text };
    const names = [left.title.textContent, right.title.textContent];
    filling(found, async () => {
      const comparison = await call("POST", "v1/compare", texts);
      return shown(comparison, await parametersOf(comparison.profile), names);
    });
  }

  /** Begins with a text that was looked up, and the document it is to be compared with. */
  function begin(text, id, file) {
    left.text = text;
    right.text = "";
    left.title.textContent = "Text that was looked up";
    right.title.textContent = `Text of ${shortened(id)}`;
    right.title.title = visible(id);
    found.replaceChildren();
    if (file) right.take(file);
    else right.area.focus();
  }

  return { element: view, title: "Compare", focus: left.area, begin };
}

function shown(comparison, parameters, names) {
  const [left, right] = comparison.fingerprints;
  const parts = [make("h2", {}, verdict(comparison))];
  const facts = [];
  if (left !== null && right !== null) facts.push(nearness({ ...comparison, similarity: null }, parameters.scheme));
  facts.push(`Jaccard similarity ${comparison.jaccard.toFixed(3)}`);
  if (comparison.containment) {
    const [ofLeft, ofRight] = comparison.containment.map((share) => (Math.floor(1000 * share) / 1000).toFixed(3)); // 1.000 is all
    facts.push(`${ofLeft} of the left text is in the right, ${ofRight} of the right in the left`);
  }
  facts.push(...comparison.notes);
  parts.push(make("p", { class: "near" }, facts.filter(Boolean).join(", ")));
  if (left !== null && right !== null) {
    const match = { ...comparison, fingerprint: right };
    parts.push(picture(left, match, parameters, comparison.drawer_count));
  }
  comparison.reasons.forEach((reason, side) => {
    if (reason !== null) {
      parts.push(notice("empty", `${names[side]} has no fingerprint`, `So the store could not find it: ${reason}.`));
    }
  });
  parts.push(...marked(comparison, names));
  return parts;
}

function verdict({ match, fingerprints, stretches, jaccard }) {
  const same = stretches.every((stretch) => stretch.same);
  if (fingerprints.includes(null)) return same ? "The same words" : "They cannot be matched";
  // Shingles have punctuation, words have none.
  if (same) return jaccard < 1 ? "The same words in the same order, and other punctuation" : "The same words in the same order";
  return match ? "One would be found by the other" : "Neither would be found by the other";
}

function marked({ stretches: all, words, more_words: more, whole }, names) {
  const different = all.filter((stretch) => !stretch.same).length;
  const shown = all.slice(0, MOST_STRETCHES);
  const panes = ["left", "right"].map((side, number) =>
    make(
      "div",
      { class: `marked ${side}` },
      make("h3", {}, names[number]),
      make("div", { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": `${names[number]}, marked` }, stretches(shown, side)),
    ),
  );
  const parts = [];
  if (different) {
    const label = make("span", { class: "aside" }, counted(different, "place differs", "places differ"));
    parts.push(make("div", { class: "actions" }, label, step("Previous", -1), step("Next", 1)));
  }
  if (whole) {
    parts.push(notice("note", "A long stretch is marked as a whole", "It is too long to be compared word by word."));
  }
  if (all.length > shown.length) {
    parts.push(notice("note", "Only the beginning is shown", `There are ${counted(different, "place")} that differ.`));
  }
  parts.push(make("div", { class: "panes" }, panes));
  if (words.length) parts.push(wordList(words, more, names));
  return parts;
}

function stretches(shown, side) {
  const element = side === "left" ? "del" : "ins";
  let number = 0;
  return shown.map((stretch) => {
    if (stretch.same) return stretch[side];
    number += 1;
    return make(element, { "data-place": number, class: stretch[side] ? null : "nothing" }, stretch[side]);
  });
}

function step(label, by) {
  return make("button", { type: "button", class: "quiet", "data-step": by, onclick: () => stepThrough(by) }, label);
}

/** Goes to the next place that differs, in both texts. */
export function stepThrough(by) {
  const places = document.querySelectorAll(".marked.left [data-place]");
  if (!places.length) return;
  const current = document.querySelector(".marked.left .current");
  const at = current ? [...places].indexOf(current) + by : by > 0 ? 0 : -1;
  const place = places[(at + places.length) % places.length].dataset.place;
  for (const old of document.querySelectorAll(".marked .current")) old.classList.remove("current");
  for (const each of document.querySelectorAll(`.marked [data-place="${place}"]`)) {
    each.classList.add("current");
    each.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function wordList(words, more, names) {
  return make(
    "details",
    { class: "explanation", open: words.length <= 12 },
    make("summary", {}, counted(words.length + more, "word is", "words are"), " more often in one of them"),
    make(
      "ul",
      { class: "words" },
      words.map(({ word, left, right }) =>
        make(
          "li",
          { title: `${names[0]}: ${left}, ${names[1]}: ${right}` },
          make(left > right ? "del" : "ins", {}, word),
          make("span", { class: "aside" }, ` ${left} : ${right}`),
        ),
      ),
    ),
    more > 0 && make("p", { class: "aside" }, `and ${counted(more, "other")}`),
  );
}
