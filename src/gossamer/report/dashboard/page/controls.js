// Pause, resume, stop, block; the token that they need, and the dialog that asks whether it is meant.

import * as api from "./api.js";
import { visible } from "./format.js";
import { byId, setText, setTitle } from "./elements.js";

const REFUSED = "Refused: the token is wrong, or of another run.";
const STOP_MEANS =
  "What is in flight ends, everything is written, and the crawl can be resumed later. This page shows its last figures then.";
const BLOCK_MEANS = "Nothing is asked of it any more, in this run and in later ones.";

export class Controls {
  /** `changed` is called when the crawl was told something; `allow` with what the rows of the tables may offer. */
  constructor({ changed, allow }) {
    this.changed = changed;
    this.allow = allow;
    this.state = "waiting";
    this.isReached = false;
    this.isDiskFull = false;
    this.isOver = false;
    this.expected = "";
    this.isBusy = false;
    byId("pause").addEventListener("click", () => this.pauseOrResume());
    byId("stop").addEventListener("click", () => this.stop());
    byId("block").addEventListener("submit", (event) => {
      event.preventDefault();
      const site = byId("block-site").value.trim();
      if (site) this.block(site);
      else byId("block-site").focus();
    });
    byId("unlock").addEventListener("submit", (event) => {
      event.preventDefault();
      const token = byId("token").value.trim();
      if (!token) return;
      api.setToken(token);
      byId("token").value = "";
      this.show();
      byId("pause").focus();
    });
    byId("result-close").addEventListener("click", () => this.tell(""));
    this.show();
  }

  /** What the crawl does now, and whether it can be told anything. */
  set(state, { isReached, isDiskFull = false }) {
    if (state === this.state && isReached === this.isReached && isDiskFull === this.isDiskFull) return;
    // What was announced has come about: the badge says it now.
    if (state === this.expected) this.tell("");
    Object.assign(this, { state, isReached, isDiskFull });
    this.show();
  }

  /** The run is over, or not at this address any more: nothing can be told to it. */
  end() {
    this.isOver = true;
    this.isReached = false;
    byId("confirm").close();
    byId("block-site").disabled = true;
    this.tell("");
    this.show();
  }

  show() {
    const may = api.hasToken() && this.isReached && this.state !== "stopping";
    byId("unlock").hidden = api.hasToken() || this.isOver;
    setText(byId("pause"), this.state === "paused" ? "Resume" : "Pause");
    // A crawl that waits for room on the disk resumes by itself, and not before.
    const isWaiting = this.state === "paused" && this.isDiskFull;
    byId("pause").disabled = !may || isWaiting;
    setTitle(byId("pause"), isWaiting ? "It resumes when there is room on the disk" : "");
    byId("stop").disabled = !may;
    byId("block").querySelector("button").disabled = !may;
    const why = api.hasToken() ? "" : "unlock-why";
    for (const id of ["pause", "stop"]) {
      if (why) byId(id).setAttribute("aria-describedby", why);
      else byId(id).removeAttribute("aria-describedby");
    }
    this.allow({ block: may, explain: !this.isOver });
  }

  async pauseOrResume() {
    if (this.state === "paused") await this.tellCrawl("resume", null, "Resuming: sites are asked again as they are due.");
    else await this.tellCrawl("pause", null, "Pausing: nothing new is asked for; what is in flight ends.");
  }

  async stop() {
    if (await confirmed("Stop the crawl?", STOP_MEANS, "Stop")) await this.tellCrawl("stop", null, "Stopping: what is in flight ends.");
  }

  async block(site) {
    const name = visible(site);
    if (!(await confirmed(`Block ${name}?`, BLOCK_MEANS, "Block"))) return;
    if (!(await this.tellCrawl("block", { site }, `${name} is blocked.`))) return;
    // It may hold another name by now: blocked from its row, or typed while this one was under way.
    const typed = byId("block-site");
    if (typed.value.trim() === site) typed.value = "";
  }

  async tellCrawl(what, body, done) {
    if (this.isBusy) return false;
    this.isBusy = true;
    try {
      await api.control(what, body);
    } catch (error) {
      if (!(error instanceof api.Refused)) throw error;
      if (error.status === 403) {
        api.setToken("");
        this.show();
        this.tell(REFUSED, "problem");
        byId("token").focus();
      } else if (error.status === 409) {
        // Another run answers: the page finds out which when it asks now.
        this.changed();
      } else this.tell(`That did not work: ${visible(error.message)}`, "problem");
      return false;
    } finally {
      this.isBusy = false;
    }
    this.tell(done);
    this.expected = { pause: "paused", resume: "running", stop: "stopping" }[what] ?? "";
    this.changed();
    return true;
  }

  tell(text, tone = "") {
    byId("result").hidden = !text;
    byId("result").classList.toggle("problem", tone === "problem");
    setText(byId("result-text"), text);
  }
}

let withdraw = () => {};

/** By a dialog that begins at "Cancel": Enter alone does no harm. */
function confirmed(title, text, verb) {
  const dialog = byId("confirm");
  // Escape and Enter in one breath: the browser tells of the end of a dialog when the next is already there.
  withdraw();
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), verb);
  dialog.showModal();
  return new Promise((resolve) => {
    const end = new AbortController();
    const answer = (value) => {
      end.abort();
      resolve(value);
    };
    withdraw = () => answer(false);
    const choose = (value) => {
      dialog.close();
      answer(value);
    };
    const once = { signal: end.signal };
    byId("confirm-yes").addEventListener("click", () => choose(true), once);
    byId("confirm-no").addEventListener("click", () => choose(false), once);
    // By Escape. One that comes late is of the dialog before.
    dialog.addEventListener("close", () => dialog.open || answer(false), once);
  });
}
