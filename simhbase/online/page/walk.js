// From document to document among near-duplicates, with the way back.

import { counted, make, shortened, visible } from "./dom.js";
import { groupDiagram, groupInWords, groupOf } from "./group.js";
import { CUT, documentAddress, failed, filling, fingerprintOf, matchList, notice, parametersOf } from "./parts.js";
import { call } from "./service.js";

export function walkView() {
  let trail = [];
  const input = make("input", { id: "document", type: "text", dir: "auto", spellcheck: "false", autocomplete: "off", placeholder: "news/1" });
  const way = make("nav", { class: "trail", "aria-label": "The way here" });
  const found = make("section", { class: "found", "aria-label": "Neighbours" });
  const view = make(
    "form",
    {
      class: "view walk",
      onsubmit: (event) => {
        event.preventDefault();
        const address = documentAddress(input.value);
        if (!input.value) input.focus();
        else if (address === location.hash) go(input.value);
        else location.hash = address;
      },
    },
    make("h1", {}, "What is near a stored document?"),
    make("div", { class: "field" }, make("label", { for: "document" }, "Id of a document"), make("div", { class: "line" }, input, make("button", {}, "Go"))),
    way,
    found,
  );

  /** Goes to a document; one that is on the way already is gone back to. */
  function go(id) {
    input.value = id;
    const passed = trail.indexOf(id);
    trail = passed < 0 ? [...trail, id] : trail.slice(0, passed + 1);
    way.replaceChildren(...steps(trail));
    filling(found, async () => {
      if (/^\.{1,2}$/.test(id)) return [notice("empty", "No browser can ask for this id", "It takes dots in addresses for folders.")];
      const path = `v1/documents/${encodeURIComponent(id)}/neighbours`;
      const lookup = await call("GET", path);
      return shown(lookup, await parametersOf(lookup.profile));
    });
  }

  function shown(lookup, parameters) {
    const number = lookup.matches.length;
    const seen = new Set(trail);
    const group = make("div", { class: "group" });
    if (number) fillGroup(group, lookup, parameters, seen);
    return [
      make("h2", { dir: "auto" }, make("span", { title: visible(lookup.id) }, shortened(lookup.id)), " ", fingerprintOf(lookup)),
      make("p", {}, number ? counted(number, "document is", "documents are") + " near it" : "No other document is near it"),
      lookup.reason !== null && notice("empty", "Its neighbours are not known", `${lookup.reason}.`),
      lookup.truncated && CUT.cloneNode(true),
      number > 0 && group,
      ...(number
        ? matchList(lookup.fingerprint, lookup.matches, parameters, (match) =>
            seen.has(match.id) ? make("span", { class: "aside" }, "on your way") : [],
          )
        : []),
    ].filter(Boolean);
  }

  /** Draws the group of a document once its neighbours have told theirs, unless the walk has gone on. */
  async function fillGroup(place, lookup, parameters, seen) {
    const walked = trail;
    try {
      const group = await groupOf(lookup, () => trail !== walked);
      if (group === null) return;
      const others = group.documents.flatMap(({ id, step }, number) => (step > 1 ? [[id, number]] : []));
      place.replaceChildren(
        groupDiagram(group, parameters, seen),
        make(
          "div",
          {},
          make("p", {}, `${groupInWords(group)}.`),
          others.length > 0 && make("p", { class: "aside" }, "Near a neighbour, not near this document:"),
          others.length > 0 && make("ol", { class: "further", start: others[0][1] }, others.map(([id]) => make("li", {}, make("a", { class: "id", href: documentAddress(id), dir: "auto", title: visible(id) }, shortened(id))))),
        ),
      );
    } catch (error) {
      place.replaceChildren(failed(error));
    }
  }

  return { element: view, title: "Walk", focus: input, go };
}

function steps(trail) {
  if (trail.length < 2) return [];
  return [
    make(
      "ol",
      {},
      trail.map((id, place) =>
        make("li", {}, make("a", { href: documentAddress(id), dir: "auto", title: visible(id), "aria-current": place === trail.length - 1 ? "page" : null }, shortened(id))),
      ),
    ),
  ];
}
