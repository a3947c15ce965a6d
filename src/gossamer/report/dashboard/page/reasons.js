// What the words for an outcome mean to a person who watches. They are those of the program (`records.Reason`).

// Each has a colour of its own, so there are as many as people can tell apart.
export const FAILURE_KINDS = [
  { reason: "status", label: "status", title: "the server answered with an error" },
  { reason: "timeout", label: "time-out", title: "no answer in time" },
  { reason: "dns", label: "DNS", title: "the name could not be resolved" },
  { reason: "connect", label: "connect", title: "no connection" },
  { reason: "tls", label: "TLS", title: "the certificate or the handshake failed" },
  { reason: "reset", label: "reset", title: "the connection broke" },
  { reason: "busy", label: "busy", title: "the server asked for time: 429 or 503" },
  { reason: "robots-unreachable", label: "robots.txt", title: "no usable answer to the request for robots.txt" },
];
export const OTHER_FAILURES = [
  "protocol",
  "too-large",
  "site-failing",
  "parse-crash",
  "returned",
];
const FAILURES = new Set([...FAILURE_KINDS.map((kind) => kind.reason), ...OTHER_FAILURES]);
const KEPT = new Set(["page", "redirect"]);
const OURS = new Set(["our-shortage", "internal-error", "stopped"]);
// It was not their turn: another site of the same server address had it, or their origin asked for time.
const WAITING = new Set(["server-address", "origin-held"]);

export const isFailure = (reason) => FAILURES.has(reason);
export const isOurs = (reason) => OURS.has(reason);
export const isWaiting = (reason) => WAITING.has(reason);
export const isRefusal = (reason) =>
  !FAILURES.has(reason) && !KEPT.has(reason) && !OURS.has(reason) && !WAITING.has(reason);

export function sumOf(outcomes, belongs) {
  let sum = 0;
  for (const [reason, count] of Object.entries(outcomes)) if (belongs(reason)) sum += count;
  return sum;
}

/** Of what was asked for; null where nothing was. */
export function failingShare(outcomes) {
  const failed = sumOf(outcomes, isFailure);
  const asked = failed + sumOf(outcomes, (reason) => KEPT.has(reason));
  return asked ? { share: failed / asked, asked } : null;
}
