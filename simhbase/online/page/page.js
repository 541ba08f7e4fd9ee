// The page: which view is shown, the token, the state of the service, keys.

import { compareView, stepThrough } from "./compare.js";
import { hasFiles } from "./files.js";
import { findView } from "./find.js";
import { groupsView } from "./groups.js";
import { askForTokensBy, whenSilent } from "./service.js";
import { state, storeView } from "./store.js";
import { browseView } from "./browse.js";

const LOOKED_AT = 2_000; // milliseconds after which the state is asked for again

const main = document.getElementById("main");
const compare = compareView();
const find = findView((text, id, file) => {
  location.hash = "#/compare";
  show(compare);
  compare.begin(text, id, file);
});
const browse = browseView();
const groups = groupsView();
const storePage = storeView();
const VIEWS = { "": find, compare, document: browse, groups, store: storePage };
let shown = null;

function show(view) {
  if (shown === view) return;
  shown = view;
  document.title = `${view.title} · simhbase`;
  main.replaceChildren(view.element);
  for (const link of document.querySelectorAll("header nav a")) {
    if (VIEWS[link.hash.slice(2)] === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function route() {
  const [, name, rest] = /^#?\/?([^/]*)(?:\/(.*))?$/s.exec(location.hash);
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : find;
  show(view);
  if (view === browse) rest ? browse.go(decoded(rest)) : browse.begin();
  if (view === groups || view === storePage) view.look();
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function showState() {
  const now = await state();
  const [kind, word, sentence] = now;
  const link = document.getElementById("state");
  link.className = `state ${kind}`;
  link.title = sentence;
  const text = document.getElementById("state-text");
  if (text.textContent !== word) text.textContent = word;
  return now;
}

/** Asks for the state again and again while the page is visible, and for the counts where they are shown. */
async function keepLooking() {
  for (;;) {
    if (!document.hidden) {
      const now = await showState();
      if (shown === storePage) storePage.refresh(now);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOKED_AT));
  }
}

/** Shows the form for a token, and promises what a person gives: null for nothing. */
function askForToken(why) {
  const form = document.getElementById("token");
  const field = document.getElementById("token-field");
  document.getElementById("token-why").textContent = why;
  const before = document.activeElement;
  form.hidden = false;
  field.value = "";
  field.focus();
  return new Promise((resolve) => {
    const done = (token) => {
      form.hidden = true;
      form.onsubmit = null;
      if (before instanceof HTMLElement) before.focus();
      resolve(token);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      done(field.value.trim());
    };
    document.getElementById("token-no").onclick = () => done(null);
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  if (event.key === "/" && shown.focus) {
    event.preventDefault();
    shown.focus.focus();
  } else if (event.key === "n" || event.key === "p") {
    stepThrough(event.key === "n" ? 1 : -1);
  }
});

// A file that is dropped beside a field must not replace the page.
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => hasFiles(event) && event.preventDefault());
}

askForTokensBy(askForToken);
whenSilent(showState);
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => document.hidden || showState());
route();
keepLooking();
