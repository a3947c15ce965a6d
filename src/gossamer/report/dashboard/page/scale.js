// Where the ticks of an axis stand, and which points are drawn as one. Pure.

// Widths of a bucket, seconds: each divides the hour or the day; days are of crawls that last for months.
const DAY = 86400;
const SIZES = [5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 21600, 43200, DAY];
const TIME_STEPS = [
  5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, DAY, 2 * DAY, 7 * DAY, 28 * DAY,
];
// A sample may be late on a loaded machine; after so many steps without one, there was none.
const GAP_STEPS = 3.5;

/** Points in buckets, at most `most`. They begin at round times: a drawing moves on without changing its shape. */
export function gather(points, { from, to, step, most, fold, series }) {
  const size = SIZES.find((each) => each >= step && (to - from) / each <= most) ?? SIZES.at(-1);
  const buckets = [];
  let before = null;
  for (const point of points) {
    const seconds = before === null ? step : Math.min(point.at - before, step * GAP_STEPS);
    const isAfterGap = before !== null && point.at - before > step * GAP_STEPS;
    before = point.at;
    if (point.at < from || point.at > to) continue;
    const start = Math.floor(point.at / size) * size;
    let bucket = buckets.at(-1);
    if (!bucket || bucket.start !== start) {
      bucket = { start, at: point.at, points: [], seconds: 0, afterGap: false };
      buckets.push(bucket);
    }
    bucket.afterGap ||= isAfterGap;
    bucket.at = point.at;
    bucket.seconds += seconds || step;
    bucket.points.push(point);
  }
  for (const bucket of buckets) bucket.values = series.map((one) => folded(bucket, one, fold));
  return { buckets, size };
}

function folded(bucket, one, fold) {
  const values = bucket.points.map(one.value).filter((value) => value != null);
  if (!values.length) return null;
  if (fold === "max") return Math.max(...values);
  const sum = values.reduce((total, value) => total + value, 0);
  return fold === "rate" ? sum / bucket.seconds : sum / values.length;
}

/** From 0 to something round above `highest`, with four to six ticks. */
export function linearTicks(highest) {
  if (!(highest > 0)) return { low: 0, high: 1, ticks: [0, 1] };
  const rough = highest / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.999);
  const count = Math.max(1, Math.ceil(highest / step - 1e-9));
  const ticks = Array.from({ length: count + 1 }, (_, index) => rounded(index * step));
  return { low: 0, high: count * step, ticks };
}

/** Powers of ten around what is to be shown; between two of them stands 3, if there are few. */
export function logTicks(lowest, highest) {
  const first = Math.floor(Math.log10(lowest) + 1e-9);
  const last = Math.max(Math.ceil(Math.log10(highest) - 1e-9), first + 1);
  const factors = last - first <= 2 ? [1, 3] : [1];
  const powers = Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index));
  const all = powers.flatMap((power) => factors.map((factor) => rounded(factor * power)));
  // Down to the last tick that is not above what is shown, up to the first that is not below it.
  const ticks = all.filter((tick, index) => (all[index + 1] ?? Infinity) > lowest && (all[index - 1] ?? 0) < highest);
  return { low: ticks[0], high: ticks.at(-1), ticks };
}

// 3 * 0.1 has more digits than anybody wants to read.
const rounded = (number) => Number(number.toPrecision(6));

/** Round times of the person's clock, at most `most` of them. */
export function timeTicks(from, to, most) {
  const step = TIME_STEPS.find((each) => (to - from) / each <= most) ?? TIME_STEPS.at(-1);
  const offset = new Date(to * 1000).getTimezoneOffset() * 60;
  const ticks = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) ticks.push(at);
  return ticks;
}
