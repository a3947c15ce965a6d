// The search box and its answer: what `gossamer explain` says, as a person reads it.

import * as api from "./api.js";
import { bytes, counted, duration, full, latency, moment, NONE, visible } from "./format.js";
import { byId, linkTo, make, say, setText } from "./elements.js";

// The last ones are what matters; `gossamer sql` has them all.
const SHOWN_ATTEMPTS = 20;
const OF_A_SITE = "Of a site, this is its first page; the rows below tell how the site stands.";
const GOOD = new Set(["fetched", "redirected"]);
const BAD = new Set(["failed", "refused", "excluded-later"]);

const NO_TOKEN = "Explain needs the token of this run. It is in dashboard.json of the data directory.";

let asked = 0;

export function listen() {
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byId("query").value.trim();
    if (text) ask(text);
    else byId("query").focus();
  });
  byId("answer-close").addEventListener("click", close);
  byId("answer").addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
}

/** The run is over: `gossamer explain` goes on answering, this page does not. */
export function end() {
  asked += 1;
  byId("answer").removeAttribute("aria-busy");
  for (const element of byId("search").elements) element.disabled = true;
}

function close() {
  asked += 1; // an answer that is under way finds nobody waiting
  byId("answer").hidden = true;
  byId("query").focus();
}

/** Of a URL, or of a site. */
export async function ask(text) {
  asked += 1;
  const mine = asked;
  byId("query").value = text;
  const section = byId("answer");
  section.hidden = false;
  section.setAttribute("aria-busy", "true");
  setText(byId("answer-title"), "Explain");
  fill(make("p", { class: "muted", text: "Looking into the store and the files of the crawl…" }));
  section.scrollIntoView({ block: "nearest" });
  byId("answer-title").focus({ preventScroll: true });
  try {
    if (!api.hasToken()) throw new api.Refused(403, NO_TOKEN);
    const answer = await api.explain(text);
    if (mine !== asked) return;
    fill(...explained(answer));
    say(`Explained: ${visible(answer.explanation.summary)}`);
  } catch (error) {
    if (!(error instanceof api.Refused)) throw error;
    if (mine !== asked) return;
    const words = visible(error.message);
    fill(make("p", { class: "problem", role: "alert", text: `No answer: ${words}` }));
  } finally {
    if (mine === asked) section.removeAttribute("aria-busy");
  }
}

function fill(...content) {
  byId("answer-body").replaceChildren(...content);
}

function explained({ kind, explanation: found }) {
  const tone = GOOD.has(found.verdict) ? "good" : BAD.has(found.verdict) ? "bad" : "";
  setText(byId("answer-title"), visible(found.url ?? found.typed));
  // The summary begins with its verdict, mostly; then the word is not said twice.
  const summary = visible(found.summary);
  const word = `${found.verdict}: `;
  const rest = summary.startsWith(word) ? summary.slice(word.length) : summary;
  const badge = make("span", { class: `word ${tone}`, text: found.verdict.replaceAll("-", " ") });
  const content = [make("p", { class: "summary" }, badge, rest)];
  if (kind === "site") content.push(make("p", { class: "muted", text: OF_A_SITE }));
  const rows = rowsOf(found).map(([name, value]) =>
    make("div", {}, make("dt", { text: name }), make("dd", {}, value instanceof Node ? value : visible(value))),
  );
  content.push(make("dl", { class: "rows wide" }, ...rows));
  if (found.attempts.length) content.push(...attemptsOf(found.attempts));
  return content;
}

/** What is not known is not mentioned. */
function rowsOf(found) {
  const rows = [];
  const add = (name, value) => value != null && value !== "" && rows.push([name, value]);
  add("URL", found.url ? linkTo(found.url, visible(found.url)) : "none");
  if (found.typed !== (found.url ?? "")) add("Typed", found.typed);
  if (found.state) add("State", `${found.state}${found.is_admitted ? "" : ", not admitted"}`);
  if (found.depth != null) {
    const seed = found.is_seed ? ", a seed or where one redirects to" : "";
    add("Depth", `${counted(found.depth, "link")} from a seed, ${counted(found.hops ?? 0, "redirect")}${seed}`);
  }
  if (found.via) add("Found by", linkTo(found.via, visible(found.via)));
  if (found.refusal) add("Refused by", `${found.refusal.reason}: ${found.refusal.words}`);
  const now = found.rules_now;
  if (found.url && now && now.words !== found.refusal?.words) add("Rules now", `${now.reason}: ${now.words}`);
  if (found.ahead != null) add("Before it", counted(found.ahead, "URL"));
  if (found.turn_seconds != null) add("Its turn", `in ${duration(found.turn_seconds)} at the earliest`);
  const back = found.returned ? `, came back ${found.returned} times from dead fetchers` : "";
  if (found.attempt != null) add("Attempt", `${found.attempt}${back}`);
  if (found.segment) add("Segment", found.segment);
  if (found.site) addSite(add, found.site, found.path_variants);
  if (found.robots) add("robots.txt", robotsOf(found.robots));
  const { place } = found;
  if (place) add("Archive", `${place.file}, offset ${full(place.offset)}, ${bytes(place.length)}`);
  for (const note of found.notes) add("Note", note);
  return rows;
}

function addSite(add, site, variants) {
  if (!site.is_known) {
    add("Site", `${site.name}, of which nothing was ever admitted`);
    return;
  }
  const facts = [site.name, `${full(site.admitted)} admitted`, `${full(site.queued)} queued`];
  if (site.is_seeded) facts.push("seeded");
  if (site.dropped) facts.push(`given up: ${site.dropped}`);
  add("Site", facts.join(", "));
  if (variants) add("Path", `${full(variants)} URLs were admitted that differ only in what follows it`);
  if (site.dropped) return;
  const wait = site.wait_seconds > 0 ? `in ${duration(site.wait_seconds)}` : "now";
  const due = site.is_busy ? "after the one that is held" : wait;
  const last = site.since_request_seconds == null ? "" : `, the last ${duration(site.since_request_seconds)} ago`;
  add("Next request", `${due}; ${site.gap_seconds} s between requests${last}`);
  if (site.failures) add("Failures", `${site.failures} in a row, of the site`);
}

function robotsOf(robots) {
  if (robots.access === "never-asked") return `never asked for at ${robots.origin}`;
  const reason = robots.reason ? ` (${robots.reason})` : "";
  const facts = [robots.access + (robots.line != null ? ` by line ${robots.line}: ${robots.rule}` : reason)];
  const end = robots.is_given_up ? ", given up" : "";
  if (robots.failures) facts.push(`${counted(robots.failures, "failure")} in a row${end}`);
  if (robots.age_seconds != null) facts.push(`${duration(robots.age_seconds)} old`);
  const isFresh = robots.valid_seconds > 0;
  facts.push(isFresh ? `asked for again in ${duration(robots.valid_seconds)}` : "expired: asked for again first");
  if (robots.crawl_delay_seconds != null) facts.push(`Crawl-delay ${robots.crawl_delay_seconds} s`);
  return facts.join(", ");
}

function attemptsOf(attempts) {
  const shown = attempts.slice(-SHOWN_ATTEMPTS);
  const more = attempts.length > shown.length ? `, the last ${shown.length} shown` : "";
  const label = `Attempts (${full(attempts.length)}${more})`;
  const heads = ["When", "Outcome", "Answer", "Size", "Time", "Address", "Words"];
  const table = make(
    "table",
    { class: "attempts" },
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))),
    make("tbody", {}, ...shown.map(attemptRow)),
  );
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  return [make("h3", { text: label }), scroll];
}

function attemptRow(attempt) {
  const cells = [
    moment(Date.parse(attempt.at) / 1000),
    attempt.kind === "url" ? attempt.outcome : `${attempt.outcome} (robots.txt)`,
    [attempt.status, attempt.failure_kind].filter((one) => one != null).join(" "),
    attempt.bytes ? bytes(attempt.bytes) : "",
    attempt.total_seconds ? latency(attempt.total_seconds) : "",
    attempt.address,
    [attempt.reason, attempt.redirect ? `to ${attempt.redirect}` : ""].filter(Boolean).join(", "),
  ];
  return make("tr", {}, ...cells.map((text) => make("td", { text: visible(text || NONE) })));
}
