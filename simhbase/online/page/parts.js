// What several views are made of: notices, matches, a field for a text.

import { bitsDiagram, drawersInWords, similarityBar } from "./diagram.js";
import { counted, make, shortened, visible } from "./dom.js";
import { firstOf, takesFiles, textOf } from "./files.js";
import { Failure, call } from "./service.js";

const ASKING = 400; // milliseconds without an answer that nobody has to be told of
const MOST_SHOWN = 100; // matches, until a person asks for the others

/** A box that says what is wrong, or worth knowing. kind: "error", "note" or "empty". */
export function notice(kind, title, text) {
  return make(
    "div",
    { class: `notice ${kind}`, role: kind === "error" ? "alert" : null },
    make("p", { class: "title" }, title),
    text && make("p", {}, text),
  );
}

/** What went wrong, in words. */
export function failed(error) {
  if (error instanceof Failure) return notice("error", error.title, error.message);
  console.error(error);
  return notice("error", "This page has a fault", `${error.message}. Load it again, and report this if it comes back.`);
}

/** Runs what fills `place`, and shows there that it is under way, or why it failed. The last call counts. */
export async function filling(place, work) {
  const mine = Symbol("call");
  place.call = mine;
  place.setAttribute("aria-busy", "true");
  const asking = setTimeout(() => {
    if (!place.childElementCount) place.append(make("p", { class: "aside" }, "Asking the service …"));
  }, ASKING);
  let content;
  try {
    content = await work();
  } catch (error) {
    content = [failed(error)];
  }
  clearTimeout(asking);
  if (place.call !== mine) return;
  place.removeAttribute("aria-busy");
  place.replaceChildren(...content);
  document.getElementById("said").textContent = content[0].textContent;
}

/** The digits of a lookup's fingerprint, beside its title. */
export function fingerprintOf({ fingerprint }) {
  return make("span", { class: "aside" }, "fingerprint ", make("code", {}, fingerprint));
}

let known = null;

/** The parameters of the store that gave an answer with this profile: asked for once, and again where the service
 * has another store meanwhile. */
export async function parametersOf(profile) {
  if (known?.profile !== profile) known = await call("GET", "v1/status");
  return known.parameters;
}

/** A field for a text with its label, a file button, and what was dropped on it. */
export function textField({ id, label, placeholder, rows = 10, asked }) {
  const area = make("textarea", {
    id,
    rows,
    placeholder,
    dir: "auto",
    spellcheck: "false",
    autocomplete: "off",
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        asked();
      }
    },
    oninput: () => describe(""),
  });
  const about = make("span", { class: "aside", id: `${id}-about`, "aria-live": "polite" });
  area.setAttribute("aria-describedby", about.id);
  const chooser = make("input", {
    type: "file",
    multiple: true,
    accept: ".txt,.md,.html,.htm,text/plain,text/html",
    class: "unseen",
    id: `${id}-file`,
    "aria-label": `File for: ${label}`,
    onchange: () => chooser.files[0] && take(firstOf(chooser.files)).then(() => (chooser.value = "")),
  });
  const title = make("label", { for: id }, label);
  const field = make(
    "div",
    { class: "field" },
    make("div", { class: "above" }, title, about, chooser, make("label", { class: "file", for: chooser.id }, "Open a file")),
    area,
  );

  function describe(name) {
    const length = [...area.value].length;
    about.textContent = [name, length ? counted(length, "character") : ""].filter(Boolean).join(", ");
  }

  async function take(file) {
    try {
      area.value = await textOf(file);
      describe(file.name);
      asked(file);
    } catch (error) {
      about.textContent = error.message;
    }
  }

  takesFiles(field, take);
  return {
    element: field,
    take,
    area,
    title,
    get text() {
      return area.value;
    },
    set text(value) {
      area.value = value;
      describe("");
    },
  };
}

/** The address of a document in this page. */
export function documentAddress(id) {
  return `#/document/${encodeURIComponent(id)}`;
}

/** How near a match is, in words: its similarity is estimated by sketches. */
export function nearness({ distance, similarity }, scheme) {
  const parts = [];
  if (scheme !== "minhash" && distance !== null) {
    parts.push(distance === 0 ? "same fingerprint" : `${counted(distance, "bit")} apart`);
  }
  if (similarity !== null) parts.push(`about ${similarity.toFixed(2)} similar`);
  return parts.join(", ");
}

/** Matches of a fingerprint as a list. actions: what else a person can do with one. */
export function matchList(fingerprint, matches, parameters, actions) {
  const tables = tablesOf(parameters);
  const items = (some) =>
    some.map((match) =>
      make(
        "li",
        { class: "match" },
        make("a", { class: "id", href: documentAddress(match.id), dir: "auto", title: visible(match.id) }, shortened(match.id)),
        make("p", { class: "near" }, nearness(match, parameters.scheme)),
        picture(fingerprint, match, parameters, tables),
        actions(match),
      ),
    );
  const list = make("ol", { class: "matches" }, items(matches.slice(0, MOST_SHOWN)));
  const others = matches.slice(MOST_SHOWN);
  if (!others.length) return [list, aboutDrawers(tables)];
  const more = make(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        const added = items(others);
        list.append(...added);
        more.remove();
        added[0].querySelector("a").focus();
      },
    },
    `Show ${counted(others.length, "other match", "other matches")}`,
  );
  return [list, make("div", { class: "actions" }, more), aboutDrawers(tables)];
}

/** What a person has to know of drawers to read a list of matches. */
function aboutDrawers(tables) {
  return make(
    "details",
    { class: "aside" },
    make("summary", {}, "What are drawers?"),
    make(
      "p",
      {},
      `The store files each document in ${counted(tables, "drawer")}, by different parts of its fingerprint, as a library files a card under title, author and subject. A lookup opens the drawers of the text that is asked about, and compares what lies in them. Near texts share some drawers, and equal ones all; what shares none is not found.`,
    ),
  );
}

/** Where two fingerprints agree; with sketches, how similar they are. */
export function picture(fingerprint, match, parameters, tables) {
  const drawers = match.drawers && make("span", { class: "drawers", title: `Flags: ${match.drawers.join(" ")}` }, drawersInWords(match.drawers, tables));
  if (parameters.scheme === "minhash") {
    return make("div", { class: "picture" }, similarityBar(match.similarity ?? 0), drawers);
  }
  return make("div", { class: "picture" }, bitsDiagram(fingerprint, match.fingerprint, parameters.layout), drawers);
}

/** In how many drawers a store of these parameters files a fingerprint. */
function tablesOf({ scheme, layout, bands }) {
  if (scheme === "minhash") return Number(/^\d+/.exec(bands)[0]);
  const [blocks, chosen] = /^(\d+)x(\d+)/.exec(layout).slice(1).map(Number); // NxMp1 has the drawers of NxM
  if (blocks === 4 && chosen === 4) return 16;
  let tables = 1;
  for (let number = 1; number <= chosen; number++) tables = (tables * (blocks - chosen + number)) / number;
  return tables;
}

export const CUT = notice(
  "note",
  "There may be more",
  "A drawer or a fingerprint holds more than one lookup reads, so this list is cut (truncated).",
);
