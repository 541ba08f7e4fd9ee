// Calls of the service, and what goes wrong with them in words that help.

const TOKEN = "simhbase.token";

/** Why there is no answer. */
export class Failure extends Error {
  constructor(title, text, code = null) {
    super(text);
    this.title = title;
    this.code = code; // of the service's error
  }
}

const TITLES = {
  forbidden: "The token does not allow this",
  not_found: "Not stored",
  too_large: "Too large",
  too_slow: "Too slow",
  invalid: "The service did not understand that",
  malformed: "The service did not understand that",
  overloaded: "The service has too much to do",
  timed_out: "That took too long",
  store_busy: "The store is busy",
  store_unreachable: "The store is away",
  store_failed: "The store failed",
  unknown_host: "This is not the service's address",
};

let asking = null; // for a token: one question, however many calls wait for its answer
let asker = null;

/** Says who asks a person for a token: a function of the reason, which promises the token, or null. */
export function askForTokensBy(ask) {
  asker = ask;
}

let silent = () => {};

/** Says who is told that the service did not answer a call. */
export function whenSilent(tell) {
  silent = tell;
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

/** What the service answers. Throws a Failure. */
export async function call(method, path, body = null) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    // A header holds no other characters, and so no token does.
    const possible = token === null || /^[\x21-\x7e]+$/.test(token);
    const response = possible ? await sent(method, path, body, token) : null;
    if (response !== null && response.status !== 401) return answer(response);
    // Another call may have got another token meanwhile.
    if (token === sessionStorage.getItem(TOKEN)) await newToken(token !== null);
  }
}

const READY = 4_000; // milliseconds after which a service that does not answer counts as silent

/** Whether the service and its store answer: "ready", "away" (the store), or "silent" (the service). */
export async function readiness() {
  try {
    const response = await fetch("readyz", { cache: "no-store", signal: AbortSignal.timeout(READY) });
    return response.ok ? "ready" : "away";
  } catch {
    return "silent";
  }
}

async function sent(method, path, body, token) {
  const headers = {};
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== null) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method,
      headers,
      body: body === null ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    silent();
    throw new Failure(
      "The service does not answer",
      "It may have stopped, or the network is down. What you typed is still here: try again in a moment.",
    );
  }
}

async function answer(response) {
  let values = null;
  try {
    values = await response.json();
  } catch {
    // What is no JSON comes of something between this page and the service.
  }
  if (response.ok && values !== null) return values;
  const { code, message, request_id: request } = values?.error ?? {};
  const title = TITLES[code] ?? "The service could not answer";
  const said = message ?? `It answered ${response.status} and nothing that this page understands.`;
  const wait = response.headers.get("Retry-After");
  const again = wait === null ? "" : ` Try again in ${wait === "1" ? "a second" : `${wait} seconds`}.`;
  const named = response.status >= 500 && request ? ` (Request ${request}.)` : "";
  throw new Failure(title, sentence(said) + again + named, code);
}

function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

async function newToken(refused) {
  forgetToken();
  const why = refused
    ? "The service refused this token: it is unknown there, or is no longer valid."
    : "This service asks for a token.";
  asking ??= asker(why).finally(() => {
    asking = null;
  });
  const token = await asking;
  if (token === null) throw new Failure("No token", "Without one this service does not answer.");
  sessionStorage.setItem(TOKEN, token);
}
