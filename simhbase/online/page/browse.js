// The stored documents, and from one to another among near-duplicates, with the way back.

import { counted, make, shortened, visible } from "./dom.js";
import { groupDiagram, groupInWords, groupOf } from "./group.js";
import { CUT, documentAddress, failed, filling, fingerprintOf, matchList, notice, parametersOf } from "./parts.js";
import { call } from "./service.js";

const LISTED = 30; // documents of a page

export function browseView() {
  let trail = [];
  const input = make("input", { id: "document", type: "text", dir: "auto", spellcheck: "false", autocomplete: "off", placeholder: "news/1" });
  const way = make("nav", { class: "trail", "aria-label": "The way here" });
  const found = make("section", { class: "found", "aria-label": "Neighbours" });
  const view = make(
    "form",
    {
      class: "view browse",
      onsubmit: (event) => {
        event.preventDefault();
        const address = documentAddress(input.value);
        if (!input.value) input.focus();
        else if (address === location.hash) go(input.value);
        else location.hash = address;
      },
    },
    make("h1", {}, "What is stored, and what is near it?"),
    make("div", { class: "field" }, make("label", { for: "document" }, "Id of a document"), make("div", { class: "line" }, input, make("button", {}, "Go"))),
    way,
    found,
  );

  /** Begins with documents of the store. */
  function begin() {
    trail = [];
    input.value = "";
    way.replaceChildren();
    filling(found, async () => {
      const first = await page("");
      if (!first.documents.length) return [notice("empty", "No document is stored yet", "Those that are added are listed here.")];
      const list = make("ol", { class: "stored" }, items(first.documents));
      return [make("h2", {}, "Stored documents"), make("p", { class: "aside" }, "In no particular order. Choose one to see what is near it."), list, further(list, first.after)].filter(Boolean);
    });
  }

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

  /** Draws the group of a document once its neighbours have told theirs, unless a person has gone on. */
  async function fillGroup(place, lookup, parameters, seen) {
    const gone = trail;
    try {
      const group = await groupOf(lookup, () => trail !== gone);
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

  return { element: view, title: "Browse", focus: input, begin, go };
}

/** A page of the stored documents, behind the one that ended with `after`. */
function page(after) {
  return call("GET", `v1/documents?limit=${LISTED}${after && `&after=${encodeURIComponent(after)}`}`);
}

function items(documents) {
  return documents.map(({ id }) => make("li", {}, make("a", { class: "id", href: documentAddress(id), dir: "auto", title: visible(id) }, shortened(id))));
}

/** A button that adds the next page to the list, until there is none. */
function further(list, after) {
  if (after === null) return null;
  const place = make("div", { class: "actions" });
  const more = make(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        more.disabled = true;
        try {
          const next = await page(after);
          list.append(...items(next.documents));
          after = next.after;
          more.disabled = false;
          if (after === null) more.remove();
        } catch (error) {
          place.replaceChildren(failed(error));
        }
      },
    },
    "Show more",
  );
  place.append(more);
  return place;
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
