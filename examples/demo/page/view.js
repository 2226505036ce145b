// What the page knows of the run.

export const view = {
  settings: null, // in force
  frameworks: ["gin", "echo", "chi", "fiber", "http"],
  buckets: new Map(), // id → {state, its elements}
  past: new Map(), // id → its states of the last 30 s
  since: 0, // when the run began
  lastID: 0, // of the latest request
  denied: null, // the latest 429 that is waited for: {id, at}
  bins: new Map(), // requests by tenth of a second: {allowed, denied, error}
  lastBin: 0,
  cleared: [], // what to do when the run is cleared
};

// idOf tells buckets apart: those of two replicas have one key.
export const idOf = (b) => (b.replica ? `${b.replica}:${b.key}` : b.key);

export const kindOf = (r) => (r.allowed ? "allowed" : r.status === 429 ? "denied" : "error");

// count notes requests of a tenth of a second.
export function count(bin, sums) {
  const b = view.bins.get(bin) ?? { allowed: 0, denied: 0, error: 0 };
  for (const [kind, n] of Object.entries(sums)) b[kind] += n;
  view.bins.set(bin, b);
  view.lastBin = Math.max(view.lastBin, bin);
}

export function sumBins(since, until = Infinity) {
  const sum = { allowed: 0, denied: 0, error: 0 };
  for (const [bin, b] of view.bins) if (bin * 100 >= since && bin * 100 < until) for (const kind in sum) sum[kind] += b[kind];
  return sum;
}

export function clearRun() {
  view.lastID = view.lastBin = 0;
  view.denied = null;
  view.bins.clear();
  view.past.clear();
  for (const f of view.cleared) f();
}
