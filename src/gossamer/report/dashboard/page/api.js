// What the server is asked, the token that it wants for some of that, and the run that this tab belongs to.

const TOKEN_KEY = "gossamer-token";
const RUN_KEY = "gossamer-run";
const PATIENCE_MS = 10_000;
// The server gives an explanation half a minute.
const EXPLAIN_PATIENCE_MS = 40_000;
// By which the server knows that this page is looked at, and waits for it at the end of the crawl.
const TAB = Math.random().toString(36).slice(2);

/** The server answered, and it was no. `status` is 0 where there was no answer. */
export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

/** Another run answers at this address. `facts` are of that one. */
export class OtherRun extends Error {
  constructor(facts) {
    super("another run answers at this address");
    this.facts = facts;
  }
}

let token = takeToken();
let run = readRun();

/** From the address, once: it does not stay there to be copied with it. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return read(TOKEN_KEY);
  keep(TOKEN_KEY, given);
  // Whoever opens a printed address means the run that has printed it.
  keep(RUN_KEY, "");
  history.replaceState(null, "", location.pathname + location.search);
  return given;
}

function read(key) {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function keep(key, value) {
  try {
    if (value) sessionStorage.setItem(key, value);
    else sessionStorage.removeItem(key);
  } catch {
    // A browser that keeps nothing: it lasts as long as the page.
  }
}

function readRun() {
  try {
    return JSON.parse(read(RUN_KEY) || "null");
  } catch {
    return null;
  }
}

export const hasToken = () => token !== "";

export function setToken(value) {
  token = value;
  keep(TOKEN_KEY, value);
}

/** The tab belongs to this run from now on, also when it is loaded again. */
function belongTo({ identity, data_directory: place, run: number }) {
  run = { identity, place, number };
  keep(RUN_KEY, JSON.stringify(run));
}

/** The run that the tab belongs to: `place` and `number`; null before the first answer. */
export const ownRun = () => run;

/** A person wants to see what answers here now, whatever it is. */
export function leaveRun() {
  keep(RUN_KEY, "");
  setToken("");
}

// The address of another run may be opened in a page that is open already: the browser loads nothing then.
addEventListener("hashchange", () => {
  if (new URLSearchParams(location.hash.slice(1)).get("token")) location.reload();
});

/** Throws OtherRun: whatever it says is not of the run that this tab belongs to. */
export async function now(span, since) {
  const query = new URLSearchParams({ span, tab: TAB });
  if (since) query.set("since", since);
  const response = await ask(`/api/now?${query}`, PATIENCE_MS);
  const answer = await response.json();
  if (run && run.identity !== answer.facts.identity) throw new OtherRun(answer.facts);
  if (!run) belongTo(answer.facts);
  return answer;
}

export async function explain(text) {
  const path = `/api/explain?${new URLSearchParams({ q: text })}`;
  const response = await ask(path, EXPLAIN_PATIENCE_MS, { headers: own() });
  return response.json();
}

/** "pause", "resume", "stop", or "block" with the site. */
export async function control(what, body) {
  const headers = own();
  if (body) headers["Content-Type"] = "application/json";
  await ask(`/api/${what}`, PATIENCE_MS, { method: "POST", headers, body: body && JSON.stringify(body) });
}

// The server refuses what is meant for another run. fetch throws at other letters; no token has them, and the server
// says no to a wrong one.
const own = () => ({
  "X-Gossamer-Token": token.replace(/[^\x21-\x7e]/g, "?"),
  ...(run ? { "X-Gossamer-Run": run.identity } : {}),
});

async function ask(path, patience, options = {}) {
  let response;
  try {
    const signal = AbortSignal.timeout(patience);
    response = await fetch(path, { cache: "no-store", credentials: "omit", signal, ...options });
  } catch (error) {
    throw new Refused(0, error.name === "TimeoutError" ? "no answer in time" : "it cannot be reached");
  }
  if (!response.ok) throw new Refused(response.status, await wordsOf(response));
  if (!response.headers.get("X-Gossamer-Run")) throw new Refused(response.status, "another program answers there");
  return response;
}

async function wordsOf(response) {
  try {
    return String((await response.json()).error);
  } catch {
    return `it answered ${response.status}`;
  }
}
