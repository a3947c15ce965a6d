// The page of a crawl that runs: asks /api/now every few seconds and shows what it says.

import * as api from "./api.js";
import { Charts } from "./charts.js";
import { Controls } from "./controls.js";
import { short } from "./format.js";
import * as explain from "./explain.js";
import { showBound, showFacts, showFigures, showLost, showState } from "./overview.js";
import { Names, showSample } from "./tables.js";

const ASK_MS = 2500; // a new sample every 5 s is seen within half of that
const ASK_HIDDEN_MS = 30_000; // in a tab that nobody looks at
const LONGEST_PAUSE_MS = 30_000; // when the crawl is away, doubled up to this
// One answer that stays away may be a busy moment; two are not.
const FAILURES_ALLOWED = 1;

const charts = new Charts();
const names = new Names({ explain: explain.ask, block: (site) => controls.block(site) });
const controls = new Controls({ changed: () => schedule(300), allow: (may) => names.allowBlocking(may) });

let timer = 0;
let failures = 0;
let run = "";
let asking = 0;

function schedule(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(ask, milliseconds);
}

async function ask() {
  asking += 1;
  const mine = asking;
  const span = charts.span;
  let answer = null;
  let words = "";
  try {
    answer = await api.now(span, charts.since);
  } catch (error) {
    // Without an answer there is nothing more to be said.
    words = error.status === 0 ? "" : `The address says: ${error.message}. `;
  }
  // The span was changed meanwhile, or somebody was impatient: what comes now is of the past.
  if (mine !== asking || span !== charts.span) return;
  if (answer !== null) {
    failures = 0;
    if (show(answer)) schedule(document.hidden ? ASK_HIDDEN_MS : ASK_MS);
    return;
  }
  failures += 1;
  if (failures > FAILURES_ALLOWED) lost(words);
  schedule(Math.min(ASK_MS * 2 ** Math.max(0, failures - 1 - FAILURES_ALLOWED), LONGEST_PAUSE_MS));
}

/** False if it has to be asked anew at once. */
function show(answer) {
  const { facts, state, sample, activity } = answer;
  const which = `${facts.data_directory} ${facts.run} ${facts.started_at}`;
  if (run && run !== which && charts.since) {
    // Another crawl answers here: the points that we have are not of it.
    run = which;
    charts.forget();
    schedule(0);
    return false;
  }
  run = which;
  document.body.classList.remove("lost");
  showState(state);
  showFacts(facts);
  showBound(sample?.bound ?? { by: "starting", because: "the first figures come in a moment" }, state);
  charts.add(answer.points, answer.now);
  if (sample) charts.showMoment(sample);
  showFigures(answer, charts);
  showSample(sample);
  names.show(activity);
  controls.set(state, true);
  document.title = sample ? `${short(sample.pages_per_second)} pages/s, ${state} · Gossamer` : `${state} · Gossamer`;
  document.body.dataset.shown = String(Number(document.body.dataset.shown ?? 0) + 1);
  return true;
}

function lost(words) {
  document.body.classList.add("lost");
  showState("lost");
  showLost(words);
  controls.set(controls.state, false);
  document.title = "No connection · Gossamer";
}

for (const choice of document.querySelectorAll("input[name=span]")) {
  choice.addEventListener("change", () => {
    charts.choose(choice.value);
    schedule(0);
  });
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) schedule(0);
});
// A browser may remember which one was chosen before the page was loaded again.
charts.choose(document.querySelector("input[name=span]:checked").value);
explain.listen();
ask();
