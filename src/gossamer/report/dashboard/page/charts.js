// Which charts there are, and the points that they share.

import { Chart } from "./chart.js";
import { bytes, bytesPerSecond, counted, full, latency, perSecond, short } from "./format.js";
import { byId, make, setText } from "./elements.js";
import { FAILURE_KINDS, sumOf, OTHER_FAILURES, isFailure, isRefusal, isOurs, isWaiting } from "./reasons.js";

// How long each span is, how often it is measured, and how little of it fills a chart: a young crawl has a wide one.
const SPANS = { hour: { seconds: 3600, step: 5, least: 300 }, day: { seconds: 86400, step: 60, least: 3600 } };

export class Charts {
  constructor() {
    this.span = "hour";
    this.points = [];
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

  add(points, now) {
    const { seconds, step, least } = SPANS[this.span];
    const since = this.since ?? -Infinity;
    this.points.push(...points.filter((point) => point.at > since));
    this.points = this.points.filter((point) => point.at > now - seconds - step);
    const to = Math.max(now, this.points.at(-1)?.at ?? now);
    const first = this.points[0]?.at ?? to;
    const from = Math.max(to - seconds, Math.min(first, to - least));
    for (const chart of this.charts) chart.show(this.points, { from, to, step });
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

  /** The mean of the last minutes, or null. */
  meanRate(seconds) {
    const last = this.points.at(-1)?.at;
    const recent = this.points.filter((point) => point.at > last - seconds);
    return recent.length ? recent.reduce((sum, point) => sum + point.pages_per_second, 0) / recent.length : null;
  }

  /** Outcomes of the last minutes, by reason. */
  outcomes(seconds) {
    const last = this.points.at(-1)?.at;
    const total = {};
    for (const point of this.points) {
      if (point.at <= last - seconds) continue;
      for (const [reason, count] of Object.entries(point.outcomes)) total[reason] = (total[reason] ?? 0) + count;
    }
    return total;
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
