// The arithmetic of a bucket: what follows from the state that the server told.
import { view } from "./view.js";

// tokensAt is the level of a limit at a time of the server, from the state that was reported at another.
export function tokensAt(limit, at, now) {
  const dt = now - at;
  if (limit.next_ms === 0 || dt <= 0) return limit.tokens;
  let gained = 0;
  if (limit.mode === "continuous") gained = limit.rate * dt / limit.interval_ms;
  else if (dt >= limit.next_ms) gained = limit.rate * (1 + Math.floor((dt - limit.next_ms) / limit.interval_ms));
  return Math.min(limit.capacity, limit.tokens + gained);
}

// untilNext is how long until a limit that is not full gains tokens, in ms; step is how many at least matter.
export function untilNext(limit, at, now, step) {
  if (limit.next_ms === 0 || tokensAt(limit, at, now) >= limit.capacity) return Infinity;
  if (limit.mode === "continuous") return step * limit.interval_ms / limit.rate;
  const dt = now - at;
  return dt < limit.next_ms ? limit.next_ms - dt : limit.interval_ms - (dt - limit.next_ms) % limit.interval_ms;
}

// asked tells whether requests were sent since a state, or are sure to have been in a flood: then nobody knows what
// became of the tokens that refilled.
export function asked(state, now) {
  if (now - view.lastBin * 100 > 400) return false;
  const busy = (bin) => Object.values(view.bins.get(bin) ?? {}).reduce((n, m) => n + m, 0);
  return view.lastBin * 100 > state.at || view.lastBin * 100 > state.at - 250 && busy(view.lastBin) + busy(view.lastBin - 1) > 40;
}

// waitFor is how long until all limits of a bucket have tokens for a request, in ms; Infinity for never.
export function waitFor(state, now) {
  return Math.max(0, ...state.limits.map((l) => (l.retry_ms < 0 ? Infinity : l.retry_ms === 0 ? 0 : l.retry_ms - (now - state.at))));
}
