// Numbers and texts as people read them. Pure; everything that is shown goes through here.

const UNITS = ["", "k", "M", "G", "T", "P"];
const EN = "en-GB"; // One notation for all: the words of the page are English.

const whole = new Intl.NumberFormat(EN, { maximumFractionDigits: 0 });

export const NONE = "–";

/** 12,345,678 */
export function full(number) {
  return number == null ? NONE : whole.format(number);
}

/** Three digits that count: 7, 0.4, 41.2, 980, 1.2 k, 3.4 M. */
export function short(number) {
  if (number == null || !Number.isFinite(number)) return NONE;
  const [digits, unit] = scaled(number);
  return unit ? `${digits} ${unit}` : digits;
}

/** 3.4 MB; decimal, as disks and networks are counted. */
export function bytes(number) {
  if (number == null || !Number.isFinite(number)) return NONE;
  const [digits, unit] = scaled(number);
  return `${digits} ${unit}B`;
}

export function bytesPerSecond(number) {
  return number == null ? NONE : `${bytes(number)}/s`;
}

/** Of a figure per second: 0.03, 0.4, 41.2, 1.2 k. */
export function perSecond(number) {
  return number == null ? NONE : `${short(number)}/s`;
}

function scaled(number) {
  let step = 0;
  let size = Math.abs(number);
  // 999.95 would be written as 1000.
  while (size >= 999.95 && step < UNITS.length - 1) {
    size /= 1000;
    step += 1;
  }
  const places = size >= 100 || (step === 0 && Number.isInteger(size)) ? 0 : size >= 0.1 || size === 0 ? 1 : 2;
  const digits = size.toFixed(places).replace(/\.0+$/, "");
  return [number < 0 ? `−${digits}` : digits, UNITS[step]];
}

/** 3.2 % */
export function percent(share) {
  if (share == null || !Number.isFinite(share)) return NONE;
  const hundredths = share * 100;
  return `${hundredths !== 0 && hundredths < 9.95 ? hundredths.toFixed(1) : hundredths.toFixed(0)} %`;
}

/** Of something measured: 0.4 ms, 41 ms, 1.2 s, 41 s. */
export function latency(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.00095) return `${(seconds * 1000).toFixed(2)} ms`;
  if (seconds < 0.0095) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${(seconds * 1000).toFixed(0)} ms`;
  return seconds < 9.95 ? `${seconds.toFixed(1).replace(".0", "")} s` : duration(seconds);
}

/** Of something that lasts: 41 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  const all = Math.max(0, Math.round(seconds));
  if (all < 60) return `${all} s`;
  if (all < 3600) return pair(Math.floor(all / 60), "min", all % 60, "s");
  if (all < 86400) return pair(Math.floor(all / 3600), "h", Math.floor((all % 3600) / 60), "min");
  return pair(Math.floor(all / 86400), "d", Math.floor((all % 86400) / 3600), "h");
}

/** Of something that is only estimated: 40 s, 3 min, 2 h 5 min. */
export function about(seconds) {
  if (seconds < 90) return `${Math.max(10, Math.round(seconds / 10) * 10)} s`;
  if (seconds < 3570) return `${Math.round(seconds / 60)} min`;
  return duration(Math.round(seconds / 60) * 60);
}

function pair(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

const MINUTES = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const clockMinutes = new Intl.DateTimeFormat(EN, MINUTES);
const clockSeconds = new Intl.DateTimeFormat(EN, { ...MINUTES, second: "2-digit" });
const date = new Intl.DateTimeFormat(EN, { day: "numeric", month: "short", year: "numeric" });

/** 14:32, where the person is. */
export function clock(at, { seconds = false } = {}) {
  return (seconds ? clockSeconds : clockMinutes).format(at * 1000);
}

const day = new Intl.DateTimeFormat(EN, { day: "numeric", month: "short" });

/** A tick of an axis: 14:32, 14:32:15 between two minutes; 3 Nov at midnight, where there is more than one day. */
export function tick(at, range) {
  const here = new Date(at * 1000);
  if (range > 86400 && here.getHours() === 0 && here.getMinutes() === 0) return day.format(here);
  return clock(at, { seconds: here.getSeconds() !== 0 });
}

/** A moment in a chart of this range: 14:32, 3 Nov, 14:32. */
export function within(at, range, options) {
  return range > 86400 ? `${day.format(at * 1000)}, ${clock(at, options)}` : clock(at, options);
}

/** 3 Nov 2025, 14:32:07; NONE for what is no time. */
export function moment(at) {
  return Number.isFinite(at) ? `${date.format(at * 1000)}, ${clock(at, { seconds: true })}` : NONE;
}

/** Text of the web with what cannot be seen made visible: controls, and the marks that turn the order of letters. */
export function visible(text) {
  return String(text ?? "").replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu,
    (sign) => (sign === "\t" || sign === "\n" || sign === "\r" ? " " : "\ufffd"),
  );
}

/** "1 page", "2 pages". */
export function counted(number, noun) {
  return `${full(number)} ${noun}${number === 1 ? "" : "s"}`;
}
