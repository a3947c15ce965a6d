// One chart: axes, lines or stacked columns, and a cursor that reads values by pointer or arrow keys.

import { NONE, tick as timeText, within } from "./format.js";
import { make, makeSvg, say, setText } from "./elements.js";
import { gather, linearTicks, logTicks, timeTicks } from "./scale.js";

const LEFT = 46;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
// A column or a bend each: closer than this, nobody can point at one.
const PIXELS_A_BUCKET = 3;
const PIXELS_A_COLUMN = 6;

/**
 * `series`: [{label, colour, value(point), dash}], the first at the bottom of a stack; `colour` names a class of the
 * style sheet. `fold` says what stands for several points: "mean", "max", or "rate" (counts, per second).
 */
export class Chart {
  constructor(figure, { title, series, write, fold = "mean", kind = "lines", scale = "linear", note = "" }) {
    this.series = series;
    this.write = write;
    this.fold = fold;
    this.kind = kind;
    this.scale = scale;
    this.title = title;
    this.buckets = [];
    this.cursor = null;
    this.points = [];

    this.at = make("span", { class: "at" });
    this.svg = makeSvg("svg", { role: "img", tabindex: "0", class: "plot" });
    this.empty = make("p", { class: "nothing", text: "Nothing measured yet" });
    this.plot = make("div", { class: "plot-box" }, this.svg, this.empty);
    this.legend = make("ul", { class: "legend" });
    this.entries = series.map((one) => {
      const key = make("span", { class: `key ${classes(one)}` });
      const value = make("span", { class: "value" });
      return { item: make("li", { title: one.title }, key, make("span", { text: one.label }), value), value };
    });
    this.legend.append(...this.entries.map((entry) => entry.item));
    this.foot = make("div", { class: "foot" });
    const aside = note ? make("span", { class: "aside", text: note }) : null;
    const head = make("figcaption", {}, make("h3", { text: title }), aside, this.at);
    figure.append(head, this.plot, this.legend, this.foot);

    this.axes = makeSvg("g");
    this.marks = makeSvg("g");
    this.pointer = makeSvg("g", { class: "pointer" });
    this.svg.append(this.axes, this.marks, this.pointer);
    new ResizeObserver(() => this.render()).observe(this.plot);
    this.listen();
  }

  /** New points, and the time that the chart shows: `from`, `to`, and `step` between two points. */
  show(points, range) {
    this.points = points;
    this.range = range;
    this.render();
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointermove", (event) => this.pointAt(event.clientX - svg.getBoundingClientRect().left));
    svg.addEventListener("pointerdown", (event) => this.pointAt(event.clientX - svg.getBoundingClientRect().left));
    svg.addEventListener("pointerleave", () => this.moveTo(null));
    svg.addEventListener("blur", () => this.moveTo(null));
    svg.addEventListener("keydown", (event) => {
      const last = this.buckets.length - 1;
      const here = this.cursorIndex() ?? last + 1;
      const next = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last }[event.key];
      if (event.key === "Escape") this.moveTo(null);
      if (next === undefined || last < 0) return;
      event.preventDefault();
      this.moveTo(this.buckets[Math.min(Math.max(next, 0), last)].start);
      say(this.reading());
    });
  }

  pointAt(x) {
    if (!this.buckets.length) return;
    let nearest = this.buckets[0];
    for (const bucket of this.buckets) {
      if (Math.abs(this.x(this.middle(bucket)) - x) < Math.abs(this.x(this.middle(nearest)) - x)) nearest = bucket;
    }
    this.moveTo(nearest.start);
  }

  // By its time, not its place: the chart moves on under the pointer.
  moveTo(start) {
    this.cursor = start;
    this.renderCursor();
  }

  cursorIndex() {
    const index = this.buckets.findIndex((bucket) => bucket.start === this.cursor);
    return index < 0 ? null : index;
  }

  middle(bucket) {
    return this.kind === "stack" ? bucket.start + this.size / 2 : bucket.at;
  }

  x(at) {
    const { from, to } = this.range;
    return LEFT + ((at - from) / (to - from)) * (this.width - LEFT - RIGHT);
  }

  y(value) {
    const { low, high } = this.axis;
    const share = this.scale === "log" ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : value / high;
    return this.height - BOTTOM - Math.min(share, 1) * (this.height - TOP - BOTTOM);
  }

  render() {
    this.width = this.plot.clientWidth;
    this.height = this.plot.clientHeight;
    if (!this.range || this.width < 2 * LEFT) return;
    const { from, to, step } = this.range;
    const most = Math.floor((this.width - LEFT - RIGHT) / (this.kind === "stack" ? PIXELS_A_COLUMN : PIXELS_A_BUCKET));
    const how = { from, to, step, most, fold: this.fold, series: this.series };
    const gathered = gather(this.points, how);
    this.buckets = gathered.buckets;
    // While nobody points at anything, the legend has what is the latest, not the mean of its bucket.
    this.latest = gather(this.points.slice(-1), how).buckets.at(-1);
    this.size = gathered.size;
    this.empty.hidden = this.buckets.length > 0;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.axis = this.findAxis();
    if (this.buckets.length) this.renderAxes();
    else this.axes.replaceChildren();
    this.marks.replaceChildren(...(this.kind === "stack" ? this.columns() : this.lines()));
    this.renderCursor();
    this.entries.forEach((entry, index) => {
      // What did not happen in all this time needs no place in the legend.
      entry.item.hidden = this.kind === "stack" && !this.buckets.some((bucket) => bucket.values[index]);
    });
    this.svg.setAttribute("aria-label", this.described());
  }

  findAxis() {
    const tops = this.buckets.map((bucket) => {
      const values = bucket.values.map((value) => value ?? 0);
      return this.kind === "stack" ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
    });
    const highest = Math.max(0, ...tops);
    if (this.scale !== "log") return linearTicks(highest);
    const all = this.buckets.flatMap((bucket) => bucket.values).filter((value) => value > 0);
    return logTicks(all.length ? Math.min(...all) : 0.01, highest || 1);
  }

  renderAxes() {
    const bottom = this.height - BOTTOM;
    const drawn = [];
    for (const tick of this.axis.ticks) {
      const y = Math.round(this.y(tick)) + 0.5;
      const kind = tick === this.axis.low ? "base" : "grid";
      drawn.push(makeSvg("line", { class: kind, x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      drawn.push(tickLabel(this.write(tick).replace(/\/s$/, ""), LEFT - 6, y + 3.5, "end"));
    }
    for (const at of timeTicks(this.range.from, this.range.to, (this.width - LEFT - RIGHT) / 64)) {
      const x = Math.round(this.x(at)) + 0.5;
      drawn.push(makeSvg("line", { class: "grid", x1: x, x2: x, y1: bottom, y2: bottom + 4 }));
      // The last one would be cut off at the edge.
      const isAtEdge = this.width - x < 26;
      drawn.push(tickLabel(timeText(at, this.range.to - this.range.from), isAtEdge ? this.width - 2 : x, this.height - 4, isAtEdge ? "end" : "middle"));
    }
    this.axes.replaceChildren(...drawn);
  }

  /** A path for each series; it is broken where nothing was measured. */
  lines() {
    const bottom = this.height - BOTTOM;
    return this.series.flatMap((one, index) => {
      const pieces = this.pieces(index);
      const line = makeSvg("path", { class: `line ${classes(one)}`, d: pieces.map(pathOf).join("") });
      if (!one.fill) return [line];
      const wide = pieces.filter((piece) => piece.length > 1);
      const areas = wide.map((piece) => `${pathOf(piece)}V${digits(bottom)}H${digits(piece[0][0])}Z`);
      return [makeSvg("path", { class: `area ${one.colour}`, d: areas.join("") }), line];
    });
  }

  /** Of one series: runs of points without a gap. */
  pieces(index) {
    const pieces = [];
    let piece = null;
    for (const bucket of this.buckets) {
      const value = bucket.values[index];
      if (value == null || bucket.afterGap) piece = null;
      if (value == null) continue;
      if (piece === null) pieces.push((piece = []));
      piece.push([this.x(bucket.at), this.y(value)]);
    }
    return pieces;
  }

  /** One path for each series, too; the first stands on the ground. */
  columns() {
    const paths = this.series.map(() => "");
    for (const bucket of this.buckets) {
      const left = Math.max(this.x(bucket.start), LEFT);
      const right = Math.min(this.x(bucket.start + this.size), this.width - RIGHT);
      const width = Math.max(right - left - 1, 1);
      let below = 0;
      bucket.values.forEach((value, index) => {
        if (!value) return;
        const [bottom, top] = [this.y(below), this.y(below + value)];
        below += value;
        paths[index] += `M${place(left, bottom)}h${digits(width)}V${digits(top)}H${digits(left)}Z`;
      });
    }
    return paths.map((path, index) => makeSvg("path", { class: `column ${this.series[index].colour}`, d: path }));
  }

  renderCursor() {
    const index = this.cursorIndex();
    const bucket = index === null ? this.latest : this.buckets[index];
    this.entries.forEach((entry, number) => setText(entry.value, bucket ? this.write(bucket.values[number]) : NONE));
    const drawn = [];
    if (index !== null) {
      const x = this.x(this.middle(bucket));
      drawn.push(makeSvg("line", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM }));
      if (this.kind === "lines") {
        bucket.values.forEach((value, number) => {
          if (value == null) return;
          drawn.push(makeSvg("circle", { class: this.series[number].colour, cx: x, cy: this.y(value), r: 3.5 }));
        });
      }
    }
    this.pointer.replaceChildren(...drawn);
    setText(this.at, index === null ? "" : this.when(bucket.at, { seconds: this.size < 60 }));
  }

  /** What is under the cursor, in words. */
  reading() {
    const bucket = this.buckets[this.cursorIndex() ?? this.buckets.length - 1];
    return `${this.when(bucket.at)}: ${this.worded(bucket)}`;
  }

  when(at, options) {
    return within(at, this.range.to - this.range.from, options);
  }

  worded(bucket) {
    const texts = this.series.map((one, index) => {
      const value = bucket.values[index];
      // Of a stack, what is not there is not in the way.
      return value || this.kind === "lines" ? `${one.label} ${this.write(value)}` : "";
    });
    return texts.filter(Boolean).join(", ") || "none";
  }

  described() {
    if (!this.latest) return `Chart: ${this.title}. Nothing measured yet.`;
    const { from, to } = this.range;
    const time = `${this.when(from)} to ${this.when(to)}`;
    return `Chart: ${this.title}, ${time}. Latest: ${this.worded(this.latest)}. The arrow keys read values.`;
  }
}

const digits = (number) => number.toFixed(1);
const place = (x, y) => `${digits(x)} ${digits(y)}`;
const classes = (one) => (one.dash ? `${one.colour} dashed` : one.colour);

/** A point that stands alone is a short dash. */
function pathOf(points) {
  const path = points.map(([x, y], number) => (number ? "L" : "M") + place(x, y)).join("");
  return points.length === 1 ? `${path}m-2 0h4` : path;
}

function tickLabel(text, x, y, anchor) {
  const label = makeSvg("text", { class: "tick", x, y, "text-anchor": anchor });
  label.textContent = text;
  return label;
}
