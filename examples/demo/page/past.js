// The states of the last 30 seconds, for the chart.
import { asked, tokensAt } from "./level.js";
import { view } from "./view.js";

export const span = 30e3; // ms shown

// remember keeps a state, also of a bucket that goes. A state holds until the next.
export function remember(id, state) {
  const past = view.past.get(id) ?? [];
  past.push(state);
  view.past.set(id, past);
  trim(state.at - span - 1000);
}

function trim(oldest) {
  for (const [id, list] of view.past) {
    while (list.length > 1 && list[1].at < oldest) list.shift();
    if (list.at(-1).until < oldest) view.past.delete(id);
  }
}

// forgetPast ends the curve of a bucket that is no longer told of.
export function forgetPast(id, now) {
  const state = view.past.get(id)?.at(-1);
  if (state) state.until ??= now;
}

// loseSight ends all curves: what became of the buckets is not known.
export function loseSight(now) { for (const id of view.past.keys()) forgetPast(id, now); }

// at is the place of the state that holds at a time, or -1.
export function stateAt(past, time, from = 0) {
  let i = from;
  while (i + 1 < past.length && past[i + 1].at <= time) i++;
  return past[i] && past[i].at <= time && !(time > past[i].until) ? i : -1;
}

// levelBetween is the level of the nth limit after a state. Up to the next one it follows from what refills, unless that
// one tells of less: then the requests between took tokens, and which of them did is not told.
export function levelBetween(past, i, nth, at, now) {
  const state = past[i], next = past[i + 1], limit = state.limits[nth], then = next?.limits[nth];
  if (!next) return asked(state, now) ? limit.tokens : tokensAt(limit, state.at, at);
  const free = tokensAt(limit, state.at, at);
  if (!then || next.policy !== state.policy || then.capacity !== limit.capacity || state.until) return free;
  if (then.tokens > tokensAt(limit, state.at, next.at) - 0.05) return free;
  let from = state.at; // until the first request it refilled
  if (next.at - state.at > 1000) from = next.at - 100; // nothing was told for long: it was the latest request
  for (let bin = Math.floor(Math.max(state.at, next.at - 1000) / 100); bin * 100 < next.at; bin++) {
    if (!view.bins.has(bin)) continue;
    from = Math.max(state.at, bin * 100);
    break;
  }
  const full = tokensAt(limit, state.at, from);
  return at < from ? free : full + (then.tokens - full) * (at - from) / Math.max(1, next.at - from);
}
