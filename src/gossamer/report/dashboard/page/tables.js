// Processes, latency, the machine, sites, recent pages. Rows are kept and changed, so that focus and pointer stay.

import { bytes, clock, counted, full, latency, moment, percent, perSecond, short, visible } from "./format.js";
import { byId, isHeld, linkTo, make, setText, setTitle } from "./elements.js";

const SHOWN_SITES = 10;
const SHOWN_PAGES = 12;
// Of the requests to a site; some fail everywhere.
const MANY_FAIL = 0.2;
const PHASES = { dns: "DNS", connect: "connect", tls: "TLS", first_byte: "first byte", total: "whole request" };

/** Rows by key, in order. While a person is busy with them, values change and rows do not. */
class Rows {
  constructor(body, { keyOf, makeRow, change, nothing }) {
    Object.assign(this, { body, keyOf, makeRow, change, nothing });
    this.rows = new Map();
  }

  show(items, { mayMove = true } = {}) {
    if (!mayMove && this.rows.size) {
      for (const item of items) if (this.rows.has(this.keyOf(item))) this.change(this.rows.get(this.keyOf(item)), item);
      return;
    }
    const rows = new Map();
    for (const item of items) {
      const key = this.keyOf(item);
      const row = this.rows.get(key) ?? this.makeRow(item);
      this.change(row, item);
      rows.set(key, row);
    }
    const wanted = rows.size ? [...rows.values()] : [this.nothing()];
    const present = [...this.body.children];
    const isSame = wanted.length === present.length && wanted.every((row, index) => row === present[index]);
    if (!isSame && (rows.size || this.rows.size || !this.body.children.length)) this.body.replaceChildren(...wanted);
    this.rows = rows;
  }
}

const nothingIn = (columns, text) => () => make("tr", { class: "nothing" }, make("td", { colspan: columns, text }));

const emptyCells = (number) => Array.from({ length: number }, () => make("td"));
const columnHead = (...content) => make("th", { scope: "col" }, ...content);

const processes = new Rows(byId("processes").tBodies[0], {
  keyOf: (use) => `${use.name} ${use.pid}`,
  makeRow: (use) => {
    const level = make("span", { class: "level", "aria-hidden": "true" }, make("span"));
    const name = make("th", { scope: "row", text: visible(use.name), title: `process ${use.pid}` });
    return make("tr", {}, name, make("td", { class: "meter" }, level, make("span")), ...emptyCells(3));
  },
  change: (row, use) => {
    const [, cpu, memory, descriptors, rate] = row.children;
    cpu.firstChild.firstChild.style.width = `${Math.min(100, use.cpu * 100).toFixed(0)}%`;
    setText(cpu.lastChild, `${(use.cpu * 100).toFixed(0)} %`);
    setText(memory, bytes(use.memory_bytes));
    setText(descriptors, full(use.descriptors));
    setText(rate, short(use.pages_per_second));
  },
  nothing: nothingIn(5, "No process measured yet"),
});

const phases = new Rows(byId("latency").tBodies[0], {
  keyOf: ([name]) => name,
  makeRow: ([name]) => make("tr", {}, make("th", { scope: "row", text: PHASES[name] }), ...emptyCells(3)),
  change: (row, [, { p50, p90, p99 }]) => {
    [p50, p90, p99].forEach((value, index) => setText(row.children[index + 1], latency(value)));
  },
  nothing: nothingIn(4, "Nothing measured yet"),
});

export function showSample(sample) {
  byId("machine-nothing").hidden = sample !== null;
  processes.show(sample?.processes ?? []);
  const measured = sample ? Object.keys(PHASES).map((name) => [name, sample.latency[name] ?? {}]) : [];
  phases.show(measured);
  if (sample) showMachine(sample);
}

function showMachine({ system, store, restarts, processes: all }) {
  const cpu = all.reduce((sum, use) => sum + use.cpu, 0);
  const memory = all.reduce((sum, use) => sum + use.memory_bytes, 0);
  const waiting = store.waiting ? `, ${full(store.waiting)} wait` : "";
  const rows = [
    ["CPU of the crawl", `${cpu.toFixed(1)} of ${counted(system.processors, "processor")}`],
    ["CPU of the machine", percent(system.cpu)],
    ["Memory of the crawl", bytes(memory)],
    ["Memory left", `${bytes(system.memory_available_bytes)} of ${bytes(system.memory_total_bytes)}`],
    ["Disk left", `${bytes(system.disk_free_bytes)} of ${bytes(system.disk_total_bytes)}`],
    ["Store calls", `${perSecond(store.calls_per_second)}, ${latency(store.seconds_per_call)} each`],
    ["Store connections", store.connections ? `${full(store.in_use)} of ${full(store.connections)} in use${waiting}` : "–"],
    ["Store outages", full(store.outages)],
    ["Processes restarted", full(restarts)],
  ];
  const list = byId("machine");
  if (!list.children.length) {
    list.append(...rows.map(([name]) => make("div", {}, make("dt", { text: name }), make("dd"))));
  }
  rows.forEach(([, text], index) => setText(list.children[index].lastChild, text));
}

/** The tables of sites and the list of pages; `explain` and `block` are called with a URL or the name of a site. */
export class Names {
  constructor({ explain, block }) {
    this.explain = explain;
    this.busiest = this.siteTable(byId("busiest"), block, "No site was asked yet");
    this.failing = this.siteTable(byId("failing-sites"), block, "No site has failed");
    this.recent = new Rows(byId("recent"), {
      keyOf: (page) => `${page.fetched_at} ${page.url}`,
      makeRow: (page) => this.pageRow(page),
      change: () => {},
      nothing: () => make("li", { class: "nothing", text: "No page was read yet" }),
    });
    this.may = { block: false, explain: true };
  }

  show(activity) {
    this.showIn(this.busiest, activity.busiest.slice(0, SHOWN_SITES));
    this.showIn(this.failing, activity.failing.slice(0, SHOWN_SITES));
    this.showIn(this.recent, activity.recent.slice(0, SHOWN_PAGES));
  }

  // Whoever reaches for "Block" must not find another site under the pointer.
  showIn(rows, items) {
    rows.show(items, { mayMove: !isHeld(rows.body) });
  }

  allow(may) {
    this.may = may;
    for (const button of document.querySelectorAll(".sites .block")) button.disabled = !may.block;
    for (const button of document.querySelectorAll(".sites .link, #recent button")) button.disabled = !may.explain;
  }

  siteTable(table, block, nothing) {
    const heads = ["Site", "Requests", "Pages", "Failures", "Received"].map((text) => columnHead(text));
    const last = columnHead(make("span", { class: "unseen", text: "Block" }));
    const body = make("tbody");
    table.append(make("thead", {}, make("tr", {}, ...heads, last)), body);
    return new Rows(body, {
      keyOf: ({ site }) => site,
      makeRow: ({ site }) => {
        const name = visible(site);
        const why = makeButton("link", "", `Explain ${name}`, () => this.explain(site));
        why.append(make("bdi", { text: name }));
        const stop = makeButton("block small", "Block…", `Block ${name}`, () => block(site));
        stop.disabled = !this.may.block;
        return make("tr", {}, make("th", { scope: "row" }, why), ...emptyCells(4), make("td", {}, stop));
      },
      change: (row, { requests, pages, failures, received_bytes: received }) => {
        const texts = [short(requests), short(pages), short(failures), bytes(received)];
        texts.forEach((text, index) => setText(row.children[index + 1], text));
        const share = failures / Math.max(requests, failures, 1);
        setTitle(row.children[3], failures ? `${percent(share)} of the requests` : "");
        row.children[3].classList.toggle("many", failures > MANY_FAIL * requests);
      },
      nothing: nothingIn(6, nothing),
    });
  }

  pageRow(page) {
    const url = visible(page.url);
    const name = linkTo(page.url, visible(page.title).trim() || url, url);
    name.dir = "auto";
    const title = make("p", { class: "title" }, name);
    const address = make("p", { class: "address", text: url, title: url });
    const texts = [
      clock(page.fetched_at, { seconds: true }),
      String(page.status),
      bytes(page.received_bytes),
      latency(page.seconds),
    ];
    const facts = texts.map((text) => make("span", { text }));
    return make(
      "li",
      {},
      make("div", { class: "page-name" }, title, address),
      make("p", { class: "page-facts", title: `fetched on ${moment(page.fetched_at)}` }, ...facts),
      makeButton("small", "Explain", `Explain ${url}`, () => this.explain(page.url)),
    );
  }
}

/** `label` is for those who do not see the row that it stands in. */
function makeButton(style, text, label, act) {
  return make("button", { type: "button", class: style, text, "aria-label": label, title: label, click: act });
}
