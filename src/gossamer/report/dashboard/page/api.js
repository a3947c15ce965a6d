// What the server is asked, and the token that it wants for the controls.

const KEY = "gossamer-token";
const PATIENCE_MS = 10_000;
// The server gives an explanation half a minute.
const EXPLAIN_PATIENCE_MS = 40_000;

/** The server answered, and it was no. `status` is 0 where there was no answer. */
export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

let token = takeToken();

/** From the address, once: it does not stay there to be copied with it. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    keep(given);
    history.replaceState(null, "", location.pathname + location.search);
    return given;
  }
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

function keep(value) {
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // A browser that keeps nothing: the token lasts as long as the page.
  }
}

export const hasToken = () => token !== "";

export function setToken(value) {
  token = value;
  keep(value);
}

// The address may be given again in a page that is open already.
export function onNewToken(listener) {
  addEventListener("hashchange", () => {
    const given = takeToken();
    if (given && given !== token) {
      token = given;
      listener();
    }
  });
}

export function now(span, since) {
  const query = new URLSearchParams({ span });
  if (since) query.set("since", since);
  return getJson(`/api/now?${query}`, PATIENCE_MS);
}

export function explain(text) {
  const options = { headers: { "X-Gossamer-Token": printableAscii(token) } };
  return getJson(`/api/explain?${new URLSearchParams({ q: text })}`, EXPLAIN_PATIENCE_MS, options);
}

/** "pause", "resume", "stop", or "block" with the site. */
export async function control(what, body) {
  const headers = { "X-Gossamer-Token": printableAscii(token) };
  if (body) headers["Content-Type"] = "application/json";
  await ask(`/api/${what}`, PATIENCE_MS, { method: "POST", headers, body: body && JSON.stringify(body) });
}

// fetch throws at other letters; no token has them, and the server says no to a wrong one.
const printableAscii = (text) => text.replace(/[^\x21-\x7e]/g, "?");

async function getJson(path, patience, options) {
  const response = await ask(path, patience, options);
  return response.json();
}

async function ask(path, patience, options = {}) {
  let response;
  try {
    const signal = AbortSignal.timeout(patience);
    response = await fetch(path, { cache: "no-store", credentials: "omit", signal, ...options });
  } catch (error) {
    throw new Refused(0, error.name === "TimeoutError" ? "no answer in time" : "it cannot be reached");
  }
  if (response.ok) return response;
  throw new Refused(response.status, await wordsOf(response));
}

async function wordsOf(response) {
  try {
    return String((await response.json()).error);
  } catch {
    return `it answered ${response.status}`;
  }
}
