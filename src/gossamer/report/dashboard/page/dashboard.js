// The page of one run of a crawl: asks /api/now every few seconds and shows what it says, until the run is over.

import * as api from "./api.js";
import { Charts } from "./charts.js";
import { Controls } from "./controls.js";
import { short } from "./format.js";
import * as explain from "./explain.js";
import { byId } from "./elements.js";
import { showBound, showEnd, showFacts, showFigures, showLost, showOther, showState } from "./overview.js";
import { Names, showSample } from "./tables.js";

const ASK_MS = 2500; // a new sample every 5 s is seen within half of that
const ASK_SOON_MS = 500; // while something is about to change
const SOON_MS = 3000; // after a click
const ASK_HIDDEN_MS = 30_000; // in a tab that nobody looks at
const LONGEST_PAUSE_MS = 30_000; // when the crawl is away, doubled up to this
// One answer that stays away may be a busy moment; two are not.
const FAILURES_ALLOWED = 1;

const charts = new Charts();
const names = new Names({ explain: explain.ask, block: (site) => controls.block(site) });
const controls = new Controls({ changed: hurry, allow: (may) => names.allow(may) });

let timer = 0;
let failures = 0;
let asking = 0;
let soonUntil = 0;
let state = "waiting";
// Nothing is asked any more: the run is over, or another one answers here.
let isOver = false;
let last = null;

function schedule(milliseconds) {
  clearTimeout(timer);
  if (!isOver) timer = setTimeout(ask, milliseconds);
}

function hurry() {
  soonUntil = Date.now() + SOON_MS;
  schedule(0);
}

async function ask() {
  asking += 1;
  const mine = asking;
  const span = charts.span;
  let answer = null;
  let problem = null;
  try {
    answer = await api.now(span, charts.since);
  } catch (error) {
    problem = error;
  }
  // The span was changed meanwhile, or somebody was impatient: what comes now is of the past.
  if (mine !== asking || span !== charts.span) return;
  if (problem instanceof api.OtherRun) return other(problem.facts);
  if (answer !== null) {
    failures = 0;
    if (show(answer)) schedule(pause());
    else schedule(0);
    return;
  }
  failures += 1;
  // Without an answer there is nothing more to be said.
  if (failures > FAILURES_ALLOWED) lost(problem.status ? `The address says: ${problem.message}. ` : "");
  schedule(Math.min(ASK_MS * 2 ** Math.max(0, failures - 1 - FAILURES_ALLOWED), LONGEST_PAUSE_MS));
}

function pause() {
  if (document.hidden) return ASK_HIDDEN_MS;
  return state === "stopping" || Date.now() < soonUntil ? ASK_SOON_MS : ASK_MS;
}

/** False if it has to be asked anew at once. */
function show(answer) {
  const { facts, sample, activity, end } = answer;
  if (!charts.fits(answer)) {
    // Its points are further apart now: those that we have do not fit.
    charts.forget();
    return false;
  }
  state = answer.state;
  document.body.classList.remove("lost");
  showFacts(facts);
  charts.add(answer);
  if (sample) charts.showMoment(sample);
  showFigures(answer);
  showSample(sample);
  names.show(activity);
  if (end) over(showEnd(end, facts));
  else {
    showState(state);
    showBound(answer.bound);
    controls.set(state, { isReached: true, isDiskFull: answer.bound.by === "disk" });
    document.title = sample ? `${short(sample.pages_per_second)} pages/s, ${state} · Gossamer` : `${state} · Gossamer`;
  }
  last = answer;
  document.body.dataset.shown = String(Number(document.body.dataset.shown ?? 0) + 1);
  return true;
}

/** The figures are the last ones, and no button does anything any more. */
function over(title) {
  isOver = true;
  clearTimeout(timer);
  controls.end();
  explain.end();
  document.title = `${title} · Gossamer`;
}

function other(facts) {
  document.body.classList.add("lost");
  for (const choice of document.querySelectorAll("input[name=span]")) choice.disabled = true;
  over(showOther(api.ownRun(), facts));
}

function lost(words) {
  document.body.classList.add("lost");
  showLost(words, state);
  controls.set(state, { isReached: false });
  document.title = "No answer · Gossamer";
}

for (const choice of document.querySelectorAll("input[name=span]")) {
  choice.addEventListener("change", () => {
    charts.choose(choice.value);
    // Of a run that is over all that there is came with its last answer.
    if (isOver) charts.add({ ...last, ...last.spans[choice.value] });
    else schedule(0);
  });
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) schedule(0);
});
byId("show-other").addEventListener("click", () => api.leaveRun());
// A browser may remember which one was chosen before the page was loaded again.
charts.choose(document.querySelector("input[name=span]:checked").value);
explain.listen();
ask();
