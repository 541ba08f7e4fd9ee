// What the service and its store are, and how they are.

import { make } from "./dom.js";
import { filling } from "./parts.js";
import { Failure, call, forgetToken, hasToken, readiness } from "./service.js";

const ROUNDED = 20000; // estimates from here on have three digits
const STATES = {
  ready: ["ready", "The service and its store answer."],
  away: ["store away", "The service answers, and its store does not: searching has to wait until it is back."],
  silent: ["not reachable", "The service does not answer: it may have stopped, or the network is down."],
};

/** The state of the service in a word and a sentence. */
export async function state() {
  const found = await readiness();
  return [found, ...STATES[found]];
}

export function storeView() {
  const found = make("section", { class: "found", "aria-label": "Store" });
  const view = make("div", { class: "view store" }, make("h1", {}, "The store and its service"), found);
  let live = null; // the parts that change, as they are shown
  let refreshing = false;

  function look() {
    live = null;
    filling(found, async () => {
      const [ready, status] = [await state(), await call("GET", "v1/status")];
      live = parts(ready, status);
      return [...live, facts("Profile", { digest: status.profile, ...status.parameters }), hasToken() && forgetting(() => (live = null))].filter(Boolean);
    });
  }

  /** Shows the state of now, and the counts where the service answers. */
  async function refresh(now) {
    if (live === null) return;
    live[0].textContent = now[2];
    if (refreshing || now[0] !== "ready") return;
    refreshing = true;
    try {
      const status = await call("GET", "v1/status");
      if (live === null) return;
      const fresh = parts(now, status);
      fresh.forEach((part, place) => live[place].replaceWith(part));
      live = fresh;
    } catch (error) {
      if (!(error instanceof Failure)) throw error; // the state says it
    } finally {
      refreshing = false;
    }
  }

  return { element: view, title: "Store", focus: null, look, refresh };
}

function parts([, , said], { version, access, stats, counted_at: time }) {
  const numbers = { documents: "Documents", fingerprints: "Fingerprints", index_rows: "Rows in drawers" };
  return [
    make("p", {}, said),
    make(
      "dl",
      { class: "numbers" },
      Object.entries(numbers).map(([name, label]) =>
        make("div", {}, make("dt", {}, label), make("dd", {}, about(stats, name))),
      ),
      make("div", {}, make("dt", {}, "Size"), make("dd", {}, `about ${size(stats.bytes)}`)),
    ),
    make("p", { class: "aside" }, `The store’s own estimates, ${age(time)}. A lookup sees every write that was acknowledged before it.`),
    facts("Service", { version, access: access === "write" ? "reads and writes" : "reads alone", ...stats.operations }),
  ];
}

/** stop: ends what would ask for a token again. */
function forgetting(stop) {
  const forget = (event) => {
    stop();
    forgetToken();
    event.target.replaceWith(make("span", { class: "aside", role: "status" }, "The token is forgotten."));
  };
  return make("div", { class: "actions" }, make("button", { type: "button", class: "quiet", onclick: forget }, "Forget the token"));
}

function facts(title, values) {
  const rows = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return make(
    "section",
    {},
    make("h2", {}, title),
    make("dl", { class: "facts" }, rows.map(([name, value]) => make("div", {}, make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, name.endsWith("bytes") ? size(value) : inWords(value))))),
  );
}

function inWords(value) {
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  if (value !== null && typeof value === "object") return Object.entries(value).map(([name, each]) => `${name} ${each}`).join(", ");
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

/** A count, without digits that mean nothing where it is an estimate. */
function about({ estimates, ranges, ...counts }, name) {
  const [least, most] = ranges[name] ?? [0, Infinity];
  const exact = least === most || !estimates.includes(name);
  if (exact) return counts[name].toLocaleString("en");
  const rounded = counts[name] < ROUNDED ? {} : { maximumSignificantDigits: 3 };
  return `about ${counts[name].toLocaleString("en", rounded)}`;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes.toFixed(unit && bytes < 100 ? 1 : 0)} ${units[unit]}`;
}

function age(time) {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  return seconds < 2 ? "counted just now" : `counted ${seconds} seconds ago`;
}
