// The groups of the stored documents, largest first.

import { counted, make, shortened, visible } from "./dom.js";
import { documentAddress, filling, nearness, notice, parametersOf } from "./parts.js";
import { call } from "./service.js";

const LISTED = 50; // groups
const SHOWN = 3; // members of a group, until a person asks for the others

export function groupsView() {
  const size = make("input", { id: "least", type: "number", min: "2", step: "1", value: "2", required: true });
  const found = make("section", { class: "found", "aria-label": "Groups" });
  const view = make(
    "form",
    {
      class: "view groups",
      onsubmit: (event) => {
        event.preventDefault();
        look();
      },
    },
    make("h1", {}, "What is stored more than once?"),
    make("div", { class: "field" }, make("label", { for: "least" }, "Documents of a group, at least"), make("div", { class: "line" }, size, make("button", {}, "Group"))),
    found,
  );

  function look() {
    filling(found, async () => {
      const list = await call("GET", `v1/groups?limit=${LISTED}&min_size=${size.value}`);
      return shown(list, await parametersOf(list.profile));
    });
  }

  return { element: view, title: "Groups", focus: size, look };
}

function shown(list, parameters) {
  const beside = `with ${counted(list.duplicates, "document")} beside the first of each`;
  return [
    make("h2", {}, list.found ? counted(list.found, "group") : "No group"),
    make("p", {}, `${counted(list.documents, "document was", "documents were")} compared${list.found ? `: ${counted(list.found, "group")}, ${beside}` : ""}.`),
    make("p", { class: "aside" }, `${left(list)}Read at ${new Date(list.read_at).toLocaleTimeString("en")}: what was written since then may be missing.`),
    list.truncated && notice("note", "There are more", `The ${counted(list.groups.length, "largest group")} are listed, and not all members of very large ones.`),
    list.found > 0 && make("ol", { class: "matches" }, list.groups.map((group) => item(group, parameters.scheme))),
  ].filter(Boolean);
}

/** What was left out. */
function left({ muted, lost_sketches: lost }) {
  const parts = [muted && `${counted(muted, "muted document")}`, lost && `${counted(lost, "document")} without a sketch`].filter(Boolean);
  return parts.length ? `Left out: ${parts.join(", ")}. ` : "";
}

function item(group, scheme) {
  const members = (some) =>
    some.map((member) => make("li", {}, link(member.id), " ", make("span", { class: "aside" }, nearness(member, scheme))));
  const list = make("ol", { class: "members" }, members(group.members.slice(0, SHOWN)));
  const others = group.members.slice(SHOWN);
  const more = make(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        const added = members(others);
        list.append(...added);
        more.remove();
        added[0].querySelector("a").focus();
      },
    },
    `Show ${counted(others.length, "other")}`,
  );
  return make("li", { class: "match" }, link(group.group), make("p", { class: "near" }, counted(group.size, "document")), list, others.length > 0 && more);
}

function link(id) {
  return make("a", { class: "id", href: documentAddress(id), dir: "auto", title: visible(id) }, shortened(id));
}
