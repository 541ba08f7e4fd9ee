// Files to texts, in the browser: what is read is what stands in the field.

import { Failure } from "./service.js";

const MOST_BYTES = 4 << 20;
const NO_TEXT = "script, style, noscript, template, nav, header, footer, aside, form, svg, iframe, object";
const BREAKS = "p, div, li, br, tr, h1, h2, h3, h4, h5, h6, section, article, blockquote, pre, dt, dd, figcaption";

/** The text of a file. Throws a Failure. */
export async function textOf(file) {
  if (file.size > MOST_BYTES) {
    throw new Failure("Too large", `${file.name} has ${(file.size / (1 << 20)).toFixed(1)} MiB: at most ${MOST_BYTES >> 20} fit here.`);
  }
  const text = decoded(new Uint8Array(await file.arrayBuffer()), file.name);
  return /\.x?html?$/i.test(file.name) || file.type === "text/html" ? pageText(text) : text;
}

function decoded(bytes, name) {
  const marked = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
  for (const encoding of marked ? [marked] : ["utf-8", "gb18030"]) {
    try {
      const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
      if (!text.includes("\0")) return text;
    } catch {
      // The next one may be right.
    }
  }
  throw new Failure("No text", `${name} is no text in UTF-8, UTF-16 or GB18030.`);
}

/** What a page says: parsed, never shown; nothing in it is loaded or run. */
function pageText(html) {
  const page = new DOMParser().parseFromString(html, "text/html");
  const content = page.querySelector("article") ?? page.querySelector("main") ?? page.body;
  for (const element of content.querySelectorAll(NO_TEXT)) element.remove();
  for (const element of content.querySelectorAll(BREAKS)) element.after("\n");
  return content.textContent.replace(/[^\S\n]+/g, " ").replace(/\s*\n\s*/g, "\n").trim();
}

const opened = new Map(); // files that were chosen or dropped together with one that is looked up, by name

/** The first of several files, which is looked up; the others are kept at hand for comparisons with it. */
export function firstOf([first, ...others]) {
  opened.delete(first.name); // or its text would be compared with itself
  for (const file of others) opened.set(file.name, file);
  return first;
}

/** The file of a document, if it was opened: documents of files have their paths as ids. */
export function openedFile(id) {
  return opened.get(id.split("/").at(-1)) ?? null;
}

/** Whether what is dragged are files, and no text. */
export function hasFiles(event) {
  return event.dataTransfer?.types.includes("Files") ?? false;
}

/** Lets files be dropped on an element; `taken` gets the first one. */
export function takesFiles(element, taken) {
  let inside = 0;
  const mark = (by) => {
    inside = Math.max(0, inside + by);
    element.classList.toggle("dropping", inside > 0);
  };
  element.addEventListener("dragenter", (event) => hasFiles(event) && mark(1));
  element.addEventListener("dragleave", (event) => hasFiles(event) && mark(-1));
  element.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  element.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    inside = 0;
    element.classList.remove("dropping");
    taken(firstOf(event.dataTransfer.files));
  });
}
