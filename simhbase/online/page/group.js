// The group of a document, drawn: it in the middle, its near-duplicates around it, lines between documents that are
// near each other.

import { counted, draw, visible } from "./dom.js";
import { documentAddress, nearness } from "./parts.js";
import { call } from "./service.js";

const MOST = 24; // documents that are drawn; each is asked for its neighbours
const AT_ONCE = 4; // requests
const MANY = 60; // lines, which are thin from then on
const DOT = 11; // radius
const APART = 2.6 * DOT; // documents on a ring, and half of the rings
const EDGE = DOT + 1;
const TURN = 0.4; // of a ring against the one inside it, so that lines do not pass through documents

/** The documents around one, from near to far, and the pairs that are near each other. Null if `stopped` says so.
 * lookup: its neighbours. */
export async function groupOf(lookup, stopped) {
  const steps = new Map([[lookup.id, 0]]); // of documents that are drawn, from the first one
  const lookups = new Map([[lookup.id, lookup]]);
  let more = false;
  const meet = ({ id, matches }) => {
    for (const match of matches) {
      if (steps.has(match.id)) continue;
      if (steps.size < MOST) steps.set(match.id, steps.get(id) + 1);
      else more = true;
    }
  };
  meet(lookup);
  for (;;) {
    const next = [...steps.keys()].filter((id) => !lookups.has(id)).slice(0, AT_ONCE);
    if (!next.length) break;
    const found = await Promise.all(next.map(neighboursOf));
    if (stopped()) return null;
    found.forEach((each) => lookups.set(each.id, each));
    found.forEach(meet);
  }
  const documents = [...steps].map(([id, step]) => ({ id, step }));
  const place = new Map(documents.map(({ id }, number) => [id, number]));
  const pairs = [...lookups.values()].flatMap(({ id, matches }) =>
    matches.filter((match) => place.get(id) < place.get(match.id)).map((match) => [place.get(id), place.get(match.id), match]),
  );
  return { documents, pairs, more };
}

async function neighboursOf(id) {
  // A document that was deleted meanwhile, or that a browser cannot ask for, is drawn without further lines.
  if (/^\.{1,2}$/.test(id)) return { id, matches: [] };
  try {
    return await call("GET", `v1/documents/${encodeURIComponent(id)}/neighbours`);
  } catch (error) {
    if (error.code === "not_found") return { id, matches: [] };
    throw error;
  }
}

/** How closely a group belongs together, in words. */
export function groupInWords({ documents, pairs, more }) {
  const all = (documents.length * (documents.length - 1)) / 2;
  const near = pairs.length === all ? "each is near every other" : `${pairs.length} of ${counted(all, "pair")} are near each other`;
  return more ? `The nearest ${documents.length} documents of its group: ${near}` : `A group of ${documents.length} documents: ${near}`;
}

/** The picture. passed: ids on the way here. */
export function groupDiagram(group, parameters, passed) {
  const { documents, pairs } = group;
  const points = placed(documents, pairs);
  const [left, top] = [0, 1].map((axis) => Math.min(...points.map((point) => point[axis])) - EDGE);
  const [width, height] = [0, 1].map((axis) => Math.max(...points.map((point) => point[axis])) + EDGE - [left, top][axis]);
  const line = ([one, other, match]) =>
    draw(
      "line",
      { x1: points[one][0], y1: points[one][1], x2: points[other][0], y2: points[other][1], class: match.distance === 0 ? "same" : null },
      draw("title", {}, `${label(one)} and ${label(other)}: ${nearness(match, parameters.scheme)}`),
    );
  const dot = ({ id }, number) => {
    const [x, y] = points[number];
    const kind = number === 0 ? "here" : passed.has(id) ? "passed" : null;
    return draw(
      "a",
      { href: documentAddress(id), tabindex: "-1", "aria-hidden": "true", class: kind }, // the lists beside it have the same links
      draw("title", {}, visible(id)),
      draw("circle", { cx: x, cy: y, r: DOT }),
      number > 0 && draw("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central" }, String(number)),
    );
  };
  return draw(
    "svg",
    { class: pairs.length > MANY ? "group many" : "group", viewBox: `${left} ${top} ${width} ${height}`, width, role: "img", "aria-label": groupInWords(group) },
    pairs.map(line),
    documents.map(dot),
  );
}

function label(number) {
  return number === 0 ? "this document" : String(number);
}

/** Where documents are drawn: on rings by their steps, in the order of what they are near. */
function placed(documents, pairs) {
  const points = [[0, 0]];
  const angles = [0];
  let radius = 0;
  for (let step = 1; ; step++) {
    const ring = documents.flatMap((each, number) => (each.step === step ? [number] : []));
    if (!ring.length) break;
    radius = Math.max(radius + 2 * APART, (ring.length * APART) / (2 * Math.PI));
    const inner = new Map(pairs.filter(([left]) => documents[left].step === step - 1).reverse().map(([left, right]) => [right, angles[left]]));
    const towards = (number) => (step === 1 ? number : inner.get(number));
    ring.sort((one, other) => towards(one) - towards(other) || one - other);
    const first = step === 1 ? -Math.PI / 2 : towards(ring[0]) + TURN;
    ring.forEach((number, place) => {
      // Two are no line through the middle, which would hide that they are near each other.
      angles[number] = first + (2 * Math.PI * place) / Math.max(ring.length, 3);
      points[number] = [radius * Math.cos(angles[number]), radius * Math.sin(angles[number])].map((each) => Math.round(10 * each) / 10);
    });
  }
  return points;
}
