// Elements. Whatever comes from a store or a person becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes ("on..." are listeners; null and false leave one out) and children. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same of SVG. */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An id as it is shown: marks that would have its letters stand in another order, so that it looks like another
 * id, are escapes. */
export function visible(id) {
  return id.replace(/[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const LONGEST_ID = 100; // characters of an id that is shown whole

/** An id for a place that has no room for a long one, which is cut in its middle: ids differ at both ends. */
export function shortened(id) {
  const characters = [...visible(id)];
  if (characters.length <= LONGEST_ID) return characters.join("");
  const half = (LONGEST_ID - 1) / 2;
  return `${characters.slice(0, Math.ceil(half)).join("")}…${characters.slice(-Math.floor(half)).join("")}`;
}

/** "1 match", "2,000 matches". */
export function counted(number, one, several = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : several}`;
}
