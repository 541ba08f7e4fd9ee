// A text, and what the store has that is near it.

import { counted, make, shortened, visible } from "./dom.js";
import { CUT, filling, fingerprintOf, matchList, notice, parametersOf, textField } from "./parts.js";
import { openedFile, takesFiles } from "./files.js";
import { call } from "./service.js";

/** compareWith: called with a text, a document's id, and a file of it where one was dropped. */
export function findView(compareWith) {
  const field = textField({
    id: "text",
    label: "Text",
    placeholder: "Paste a text, or drop a .txt or .html file here.",
    asked: () => ask(),
  });
  const found = make("section", { class: "found", "aria-label": "Matches" });
  const view = make(
    "form",
    {
      class: "view find",
      onsubmit: (event) => {
        event.preventDefault();
        ask();
      },
    },
    make("h1", {}, "Have we already seen this text, or one almost like it?"),
    field.element,
    make("div", { class: "actions" }, make("button", {}, "Find"), make("kbd", {}, "Ctrl Enter")),
    found,
  );

  takesFiles(view, field.take);

  function ask() {
    const text = field.text;
    if (!text.trim()) {
      found.replaceChildren(notice("empty", "No text yet", "Paste one above, or drop a file."));
      field.area.focus();
      return;
    }
    view.classList.add("asked"); // on a phone the field gets smaller, so that the first match is seen
    field.area.scrollTop = 0;
    filling(found, async () => {
      const { lookups, profile } = await call("POST", "v1/find", { text });
      return shown(text, lookups[0], await parametersOf(profile));
    });
  }

  function shown(text, lookup, parameters) {
    if (lookup.reason !== null) {
      return [notice("empty", "This text has no fingerprint", `So nothing can be near it: ${lookup.reason}.`)];
    }
    const number = lookup.matches.length;
    const title = number ? counted(number, "match", "matches") : "Nothing near it is stored";
    return [
      make("h2", {}, title, " ", fingerprintOf(lookup)),
      lookup.truncated && CUT.cloneNode(true),
      ...(number ? matchList(lookup.fingerprint, lookup.matches, parameters, (match) => actions(text, match)) : []),
      number > 0 &&
        make(
          "p",
          { class: "aside" },
          "The store keeps no texts. To see which words differ, drop a match’s own file on it, or choose Compare and paste its text. Files that were opened or dropped together are at hand for that.",
        ),
      explanation(text),
    ].filter(Boolean);
  }

  function actions(text, match) {
    const file = openedFile(match.id);
    const button = make(
      "button",
      { type: "button", class: "quiet", onclick: () => compareWith(text, match.id, file) },
      file ? `Compare with ${file.name}` : "Compare",
    );
    if (!file) button.setAttribute("aria-label", `Compare with the text of ${shortened(match.id)}`);
    queueMicrotask(() => takesFiles(button.closest("li"), (file) => compareWith(text, match.id, file)));
    return button;
  }

  return { element: view, title: "Find", focus: field.area };
}

/** What the lookup read, asked for when it is unfolded. */
function explanation(text) {
  const place = make("div", {});
  return make(
    "details",
    {
      class: "explanation",
      ontoggle: (event) => {
        if (event.target.open && !place.childElementCount) filling(place, () => explained(text));
      },
    },
    make("summary", {}, "What was read for this"),
    place,
  );
}

async function explained(text) {
  const found = await call("POST", "v1/explain", { text });
  const parameters = await parametersOf(found.profile);
  const named = parameters.scheme === "minhash" ? "Slots" : "Bits";
  const similar = found.candidates.some((each) => each.similarity !== null);
  return [
    scrolling(
      "Drawers",
      ["Flag", named, "Prefix", "Rows", "Candidates"],
      found.drawers.map((drawer) => [
        drawer.flag,
        drawer.bits.map(([first, number]) => `${first}–${first + number - 1}`).join(", "),
        make("code", {}, drawer.prefix),
        drawer.rows.toLocaleString("en") + (drawer.truncated ? " (truncated)" : ""),
        drawer.candidates.toLocaleString("en"),
      ]),
    ),
    found.candidates.length > 0 &&
      scrolling(
        "Candidates",
        ["Verdict", "Distance", ...(similar ? ["Similar"] : []), "Document", "Drawers"],
        found.candidates.map((each) => [
          each.verdict,
          each.distance ?? "",
          ...(similar ? [each.similarity?.toFixed(2) ?? ""] : []),
          each.id === null ? "none is listed" : make("span", { title: visible(each.id) }, shortened(each.id)),
          each.drawers.join(" "),
        ]),
      ),
    ...found.notes.map((note) => make("p", { class: "aside" }, note)),
    found.more_candidates > 0 &&
      make("p", { class: "aside" }, `${counted(found.more_candidates, "fingerprint")} in these drawers are farther away.`),
  ].filter(Boolean);
}

function scrolling(caption, heads, rows) {
  return make(
    "div",
    { class: "scrolling", tabindex: "0", role: "region", "aria-label": caption },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell) => make("td", {}, cell))))),
    ),
  );
}
