// Which charts there are, and the points that they share.

import { Chart } from "./chart.js";
import { bytes, bytesPerSecond, counted, full, latency, perSecond, short } from "./format.js";
import { byId, make, setText } from "./elements.js";
import { FAILURE_KINDS, sumOf, OTHER_FAILURES, isFailure, isRefusal, isOurs, isWaiting } from "./reasons.js";

const SPANS = { "5min": 300, hour: 3600, day: 86400, all: Infinity };
// A chart begins where the crawl does. In its first minute there is room on the right.
const LEAST_SECONDS = 60;

export class Charts {
  constructor() {
    this.span = "hour";
    this.points = [];
    this.step = null;
    this.charts = [];
    const add = (id, options) => {
      const chart = new Chart(byId(id), options);
      this.charts.push(chart);
      return chart;
    };
    this.pages = add("chart-pages", {
      title: "Pages per second",
      write: perSecond,
      series: [
        { label: "pages", colour: "accent", fill: true, value: (point) => point.pages_per_second },
        {
          label: "requests",
          title: "those for robots.txt included",
          colour: "quiet",
          dash: true,
          value: (point) => point.fetches_per_second,
        },
      ],
    });
    this.bytes = add("chart-bytes", {
      title: "Bytes per second",
      write: bytesPerSecond,
      series: [{ label: "received", colour: "accent", fill: true, value: (point) => point.bytes_per_second }],
    });
    this.queued = add("chart-queued", {
      title: "Frontier",
      write: short,
      series: [{ label: "URLs queued", colour: "accent", fill: true, value: (point) => point.queued }],
    });
    this.flight = add("chart-flight", {
      title: "In flight and spool",
      write: short,
      series: [
        {
          label: "spooled pages",
          title: "fetched, and waiting for a parser",
          colour: "accent",
          fill: true,
          value: (point) => point.spooled,
        },
        { label: "in flight", colour: "quiet", dash: true, value: (point) => point.in_flight },
      ],
    });
    add("chart-outcomes", {
      title: "Outcomes",
      note: "per second",
      kind: "stack",
      fold: "rate",
      write: short,
      series: [
        outcome("pages", "accent", (reason) => reason === "page"),
        outcome("redirects", "pale", (reason) => reason === "redirect"),
        outcome("refused", "quiet", isRefusal, "by robots.txt, or by a rule of the crawl"),
        outcome(
          "put back",
          "ours",
          (reason) => isOurs(reason) || isWaiting(reason),
          "to wait for the turn of its server address or origin, for a shortage of this machine, or for the end",
        ),
        outcome("failures", "bad", isFailure),
      ],
    });
    add("chart-failures", {
      title: "Failure kinds",
      note: "per second",
      kind: "stack",
      fold: "rate",
      write: short,
      series: [
        ...FAILURE_KINDS.map((kind, number) =>
          outcome(kind.label, `kind-${number}`, (reason) => reason === kind.reason, kind.title),
        ),
        outcome("other", "kind-other", (reason) => OTHER_FAILURES.includes(reason), OTHER_FAILURES.join(", ")),
      ],
    });
    add("chart-latency", {
      title: "Latency of a request",
      scale: "log",
      fold: "max",
      write: latency,
      series: [
        { label: "99 %", colour: "latency-99", value: (point) => point.total.p99 },
        { label: "90 %", colour: "latency-90", value: (point) => point.total.p90 },
        { label: "median", colour: "latency-50", value: (point) => point.total.p50 },
        { label: "first byte, median", colour: "quiet", dash: true, value: (point) => point.first_byte.p50 },
      ],
    });
  }

  choose(span) {
    this.span = span;
    this.forget();
  }

  forget() {
    this.points = [];
  }

  /** The time of the last point, for those that follow it. */
  get since() {
    return this.points.at(-1)?.at ?? null;
  }

  /** Whether its points can follow those that are here. */
  fits({ step }) {
    return !this.points.length || step === this.step;
  }

  /** What /api/now answers. */
  add({ points, partial, step, now, facts, end }) {
    const seconds = SPANS[this.span];
    const since = this.since ?? -Infinity;
    this.step = step;
    this.points.push(...points.filter((point) => point.at > since));
    const last = partial ?? this.points.at(-1);
    const to = Math.max(end?.at ?? now, last?.at ?? 0);
    const from = Math.max(to - seconds, facts.started_at);
    this.points = this.points.filter((point) => point.at > from - step);
    const shown = partial ? [...this.points, partial] : this.points;
    const least = end ? step : LEAST_SECONDS;
    for (const chart of this.charts) chart.show(shown, { from, to: Math.max(to, from + least), step });
  }

  /** What stands under the charts, of this moment. */
  showMoment(sample) {
    const { counts } = sample;
    const cooling = Math.max(0, counts.sites_waiting - counts.sites_ready);
    const parsed = `parsed ${perSecond(sample.parsed_per_second)}`;
    foot(this.pages, [parsed, `URLs admitted ${perSecond(sample.admitted_per_second)}`]);
    foot(this.bytes, [`${bytes(counts.received_bytes)} in all`]);
    const sites = [
      ["ready", counts.sites_ready, "accent"],
      ["cooling", cooling, "pale"],
      ["busy", counts.sites_busy, "ours"],
    ];
    siteBar(this.queued, sites, counts.sites);
    const busy = `${full(sample.in_flight)} of ${counted(sample.workers, "worker")} busy`;
    foot(this.flight, [`${bytes(sample.backlog_bytes)} spooled`, busy]);
  }
}

function outcome(label, colour, belongs, title) {
  return { label, colour, title, value: (point) => sumOf(point.outcomes, belongs) };
}

function foot(chart, texts) {
  while (chart.foot.children.length < texts.length) chart.foot.append(make("span"));
  texts.forEach((text, index) => setText(chart.foot.children[index], text));
}

/** How many sites may be asked, and why the others may not, as a bar. */
function siteBar(chart, parts, known) {
  if (!chart.bar) {
    const colours = parts.map(([, , colour]) => colour);
    const pieces = colours.map((colour) => make("span", { class: colour }));
    chart.bar = make("span", { class: "bar-of-sites", "aria-hidden": "true" }, ...pieces);
    chart.barTexts = colours.map((colour) => make("span", {}, make("span", { class: `key ${colour}` }), make("span")));
    chart.foot.append(chart.bar, ...chart.barTexts);
  }
  parts.forEach(([name, count], index) => {
    chart.bar.children[index].style.flexGrow = String(count);
    // The store counts those that are ready up to ten thousand.
    const more = name === "ready" && count >= 10_000 ? "+" : "";
    setText(chart.barTexts[index].lastChild, `${short(count)}${more} ${name}`);
  });
  chart.foot.title = `Sites with something to ask; ${counted(known, "site")} known`;
}
