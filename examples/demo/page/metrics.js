// The sums of the run.
import { $, setText } from "./dom.js";
import { view } from "./view.js";
import { micros } from "./words.js";

export function hearMetrics(m) {
  view.since = m.since;
  const all = m.admitted + m.denied + m.errors;
  setText($("m-admitted"), String(m.admitted));
  setText($("m-denied"), String(m.denied));
  setText($("m-errors"), String(m.errors));
  setText($("m-ratio"), `${Math.round(m.ratio * 1000) / 10}%`);
  setText($("m-p50"), all ? micros(m.p50_micros) : "–");
  setText($("m-p99"), all ? micros(m.p99_micros) : "–");
}

view.cleared.push(() => hearMetrics({ admitted: 0, denied: 0, errors: 0, ratio: 0, p50_micros: 0, p99_micros: 0, since: 0 }));
