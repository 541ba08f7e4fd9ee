// The 64 bits of two fingerprints in a picture: blocks that agree are filled, and bits that differ stand out.

import { counted, draw } from "./dom.js";

const BITS = 64;
const BIT = 6; // width
const GAP = 4; // between blocks
const HEIGHT = 14;

/** Where a layout cuts 64 bits: [start, width] of each block, the larger ones first. */
export function blocksOf(layout) {
  const blocks = Number(/^(\d+)x\d+(p1)?$/.exec(layout ?? "")?.[1] ?? 1);
  const width = Math.floor(BITS / blocks);
  const larger = BITS % blocks;
  let start = 0;
  return Array.from({ length: blocks }, (_, number) => {
    const block = [start, width + (number < larger ? 1 : 0)];
    start += block[1];
    return block;
  });
}

/** The bits in which two fingerprints differ, 0 the most significant: hexadecimal digits twice. */
export function differing(left, right) {
  const bits = (BigInt(`0x${left}`) ^ BigInt(`0x${right}`)).toString(2).padStart(BITS, "0");
  return [...bits].flatMap((bit, place) => (bit === "1" ? [place] : []));
}

/** A picture of where two fingerprints differ, with what it shows in words. */
export function bitsDiagram(left, right, layout) {
  const blocks = blocksOf(layout);
  const far = differing(left, right);
  const parts = blocks.map(([start, width], number) => {
    const x = (place) => place * BIT + number * GAP;
    const inside = far.filter((place) => place >= start && place < start + width);
    return draw(
      "g",
      {},
      draw("rect", {
        class: inside.length ? "block" : "block agrees",
        x: x(start) + 0.5,
        y: 0.5,
        width: width * BIT - 1,
        height: HEIGHT - 1,
        rx: 2,
      }),
      inside.map((place) =>
        draw("rect", { class: "bit", x: x(place) + 1, y: 2.5, width: BIT - 2, height: HEIGHT - 5 }),
      ),
    );
  });
  const agreeing = parts.length - new Set(far.map((place) => blocks.findIndex(([s, w]) => place < s + w))).size;
  const words = `${counted(far.length, "bit")} of ${BITS} differ; ${agreeing} of ${blocks.length} blocks agree`;
  const width = BITS * BIT + (blocks.length - 1) * GAP;
  return draw(
    "svg",
    { class: "bits", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words },
    draw("title", {}, words),
    parts,
  );
}

/** A similarity from 0 to 1 as a bar. */
export function similarityBar(similarity) {
  const [width, words] = [BITS * BIT, `about ${similarity.toFixed(2)} similar`];
  return draw(
    "svg",
    { class: "bits", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words },
    draw("rect", { class: "block", x: 0.5, y: 0.5, width: width - 1, height: HEIGHT - 1, rx: 2 }),
    draw("rect", { class: "block agrees", x: 0.5, y: 0.5, width: (width - 1) * similarity, height: HEIGHT - 1, rx: 2 }),
  );
}

/** How many drawers of how many are shared, in words. */
export function drawersInWords(drawers, tables) {
  if (drawers.length === 0) return "shares no drawer";
  if (drawers.length === tables) return `shares all ${counted(tables, "drawer")}`;
  return `shares ${drawers.length} of ${counted(tables, "drawer")}`;
}
