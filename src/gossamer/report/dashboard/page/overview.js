// The first card: how the crawl is, what limits it, the figures that everybody asks for.

import { about, bytes, clock, counted, duration, full, NONE, percent, perSecond, short } from "./format.js";
import { byId, make, say, setText, setTitle } from "./elements.js";
import { failingShare, sumOf } from "./reasons.js";

const STATES = {
  running: "Running",
  paused: "Paused",
  stopping: "Stopping",
  finished: "Finished",
  stopped: "Stopped",
  failed: "Failed",
  waiting: "Connecting",
  lost: "No answer",
  ended: "Ended",
  other: "Another run",
};

const BOUNDS = {
  starting: "Starting:",
  paused: "Paused:",
  stopping: "Stopping:",
  politeness: "Limited by politeness:",
  "server-address": "Limited by shared server addresses:",
  "fetch-cpu": "Limited by the CPU of the fetchers:",
  "parse-cpu": "Limited by the CPU of the parsers:",
  "machine-cpu": "Limited by the CPU of this machine:",
  store: "Limited by the store:",
  dns: "Limited by name resolution:",
  disk: "Limited by the disk:",
  shortage: "Short of something:",
  servers: "Limited by the servers:",
  work: "Limited by the work there is:",
};

// By the reason for the end (`run.stop.StopReason`): which state that is, and why.
const ENDS = {
  exhausted: ["finished", () => "everything that was admitted is fetched"],
  max_pages: ["finished", (facts) => `the limit of ${counted(facts.max_pages, "page")} is reached`],
  max_duration: ["finished", (facts) => `the limit of ${duration(facts.max_duration_seconds)} is reached`],
  interrupted: ["stopped", (facts) => `nothing is lost; gossamer resume ${facts.data_directory} continues it`],
  failed: ["failed", () => "an error ended it; log/leader.log in the data directory has the reason"],
};

// Nobody waits for that: the rate is not what it should be.
const FAR_SECONDS = 365 * 86400;
// What a person should look at. Broad crawls have some ten per cent of dead hosts; above a third something is wrong.
const MANY_FAIL = 0.33;
const ENOUGH_ASKED = 50;
const LITTLE_DISK = 0.05;
const LITTLE_MEMORY = 0.05;
// A sample is taken every five seconds; so much later the leader is busy with something else.
const OLD_SAMPLE_SECONDS = 30;

let shownState = null;

export function showState(state, { quiet = false } = {}) {
  if (state === shownState) return;
  byId("state").dataset.state = state;
  setText(byId("state-text"), STATES[state] ?? state);
  if (!quiet && shownState !== null) say(`The crawl: ${STATES[state] ?? state}`);
  shownState = state;
}

export function showBound(bound) {
  // These sentences say themselves what the label would.
  const [, state, colon, rest] = /^(paused|stopping|resumed)(:?) (.*)$/.exec(bound.because) ?? [];
  const label = state ? `${state[0].toUpperCase()}${state.slice(1)}${colon}` : (BOUNDS[bound.by] ?? `${bound.by}:`);
  setText(byId("bound-by"), label);
  setText(byId("bound-because"), rest ?? bound.because);
}

/** `before` is the state that it was seen in last. */
export function showLost(words, before) {
  const isExpected = before === "stopping";
  showState(isExpected ? "ended" : "lost");
  setText(byId("bound-by"), isExpected ? "The crawl was stopping, and has ended." : "The crawl does not answer.");
  const why = isExpected ? "" : "It has ended, or cannot be reached; gossamer status tells. ";
  setText(byId("bound-because"), `${words}${why}These are the last figures; it is asked again from time to time.`);
}

/** How it ended; the word for it. */
export function showEnd({ reason, at }, facts) {
  const [state, why] = ENDS[reason] ?? ["finished", () => reason];
  showState(state);
  setText(byId("bound-by"), `${STATES[state]} at ${clock(at, { seconds: true })}:`);
  setText(byId("bound-because"), `${why(facts)}. These are the last figures.`);
  return STATES[state];
}

/** Another run answers at the address of this tab's run. Nothing of it is shown but its name. */
export function showOther(mine, facts) {
  showState("other");
  setText(byId("bound-by"), `Run ${full(mine.number)} of ${mine.place} is not at this address any more.`);
  setText(byId("bound-because"), "This tab belongs to it, and shows its last figures.");
  const same = mine.place === facts.data_directory ? "the same crawl" : facts.data_directory;
  setText(byId("other-text"), `Another run has this address now: run ${full(facts.run)} of ${same}.`);
  byId("other").hidden = false;
  return STATES.other;
}

export function showFacts(facts) {
  setText(byId("place"), facts.data_directory);
  setTitle(byId("place"), facts.data_directory);
  setText(byId("run"), ` · run ${full(facts.run)}`);
  const delay = `${facts.delay_seconds} s between requests to a site`;
  setText(byId("facts"), `Gossamer ${facts.version} · store ${facts.store} · ${delay} · times are of your clock`);
}

export function showFigures({ sample, facts, now, recent, state, end }) {
  if (!sample) return;
  const { counts } = sample;
  figure("pages", full(counts.pages));
  // Pages count when they are written, many at once; meanwhile this number moves.
  const unwritten = `+ ${full(counts.spooled)} not yet written`;
  figure("unwritten", counts.spooled ? unwritten : "", "fetched, and waiting to be parsed or written");
  figure("rate", short(sample.pages_per_second), perSecond(sample.pages_per_second));
  figure("received", bytes(counts.received_bytes), `${full(counts.received_bytes)} bytes`);
  figure("queued", short(counts.queued), counted(counts.queued, "URL"));
  figure("elapsed", duration(sample.elapsed_seconds), "of this run");
  const failing = failingShare(recent.outcomes);
  if (failing) figure("failing", percent(failing.share), `of ${counted(failing.asked, "request")}`);
  else figure("failing", NONE, "nothing was asked");
  showLimit(sample, facts, state, recent.pages_per_second ?? sample.pages_per_second);
  showHealth(healthOf(sample, failing, recent.outcomes, end?.at ?? now), end !== null);
}

function figure(id, text, title = "") {
  setText(byId(id), text);
  setTitle(byId(id), title);
}

/** The limit that will be reached first. How long that takes is known while it runs alone; time runs in a pause, too. */
function showLimit(sample, facts, state, rate) {
  const limits = [];
  if (facts.max_pages) {
    const fetched = sample.counts.pages + sample.counts.spooled;
    const left = Math.max(0, facts.max_pages - fetched);
    limits.push({
      share: fetched / facts.max_pages,
      seconds: left === 0 ? 0 : rate > 0 && state === "running" ? left / rate : Infinity,
      of: `${full(facts.max_pages)} pages`,
    });
  }
  if (facts.max_duration_seconds) {
    limits.push({
      share: sample.elapsed_seconds / facts.max_duration_seconds,
      seconds: Math.max(0, facts.max_duration_seconds - sample.elapsed_seconds),
      of: duration(facts.max_duration_seconds),
    });
  }
  byId("limit").hidden = !limits.length;
  if (!limits.length) return;
  const first = limits.sort((one, other) => one.seconds - other.seconds || other.share - one.share)[0];
  const rest = first.seconds < FAR_SECONDS ? `about ${about(first.seconds)}` : "";
  const words = {
    running: rest ? `${rest} left` : "no end in sight",
    paused: rest ? `stops in ${rest}` : "paused",
  };
  const left = first.seconds === 0 ? "reached" : (words[state] ?? "");
  setText(byId("limit-name"), `Limit: ${first.of}`);
  setText(byId("limit-text"), [percent(Math.min(1, first.share)), left].filter(Boolean).join(", "));
  byId("progress").value = Math.min(1, first.share);
}

function healthOf(sample, failing, recent, now) {
  const notes = [];
  const { system, store } = sample;
  const age = now - sample.at;
  if (age > OLD_SAMPLE_SECONDS) notes.push(`these figures are ${duration(age)} old`);
  if (failing && failing.asked >= ENOUGH_ASKED && failing.share > MANY_FAIL) {
    notes.push(`${percent(failing.share)} of the requests of the last minutes failed`);
  }
  const short = sumOf(recent, (reason) => reason === "our-shortage");
  if (short) notes.push(`${counted(short, "URL")} put back for a shortage of this machine`);
  const erred = sumOf(recent, (reason) => reason === "internal-error");
  if (erred) notes.push(`${counted(erred, "internal error")}: the log files have them, no site is charged`);
  if (sample.restarts === 1) notes.push("a process was started again");
  else if (sample.restarts) notes.push(`processes were started again ${full(sample.restarts)} times`);
  if (sample.quarantined_segments) {
    const segments = counted(sample.quarantined_segments, "segment");
    notes.push(`${segments} could not be parsed: kept in spool/quarantine, the URLs are fetched again`);
  }
  if (store.outages) notes.push(`the store was away ${store.outages === 1 ? "once" : `${full(store.outages)} times`}`);
  if (system.disk_total_bytes && system.disk_free_bytes < LITTLE_DISK * system.disk_total_bytes) {
    notes.push(`the disk has only ${bytes(system.disk_free_bytes)} free`);
  }
  if (system.memory_total_bytes && system.memory_available_bytes < LITTLE_MEMORY * system.memory_total_bytes) {
    notes.push(`only ${bytes(system.memory_available_bytes)} of memory are left`);
  }
  return notes;
}

function showHealth(notes, isOver) {
  const list = byId("health");
  const texts = notes.length || isOver ? notes : ["Healthy"];
  if (texts.join() === [...list.children].map((item) => item.textContent).join()) return;
  list.classList.toggle("fine", !notes.length);
  list.replaceChildren(...texts.map((text) => make("li", { text })));
}
