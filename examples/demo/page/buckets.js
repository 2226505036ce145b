// The buckets on the stage, and what happens in them.
import { asked, tokensAt, untilNext } from "./level.js";
import { build, high, levelY, show } from "./bucket.js";
import { $, calm, setAttr, setText } from "./dom.js";
import { drop, gain } from "./drops.js";
import { onFrame, wake } from "./frames.js";
import { heardAt, serverNow } from "./clock.js";
import { colourOf } from "./owners.js";
import { forgetPast, remember } from "./past.js";
import { idOf, view } from "./view.js";
import { plural } from "./words.js";

// hearState takes what the server says of the buckets. What follows from it is computed, until it says more.
export function hearState({ list, more, store }) {
  setText($("store-text"), store.text);
  setAttr($("live"), "data-alone", String(store.alone));
  const ids = new Set();
  for (const state of list) {
    heardAt(state.at);
    const id = idOf(state), b = view.buckets.get(id) ?? {};
    ids.add(id);
    if (b.state && b.state.at > state.at) continue;
    b.state = state;
    remember(id, state);
    view.buckets.set(id, b);
    build(b, $("buckets"));
    b.colour = colourOf(id, state);
    setAttr(b.el.querySelector(".key"), "data-owner", String(b.colour));
    b.el.classList.toggle("alone", state.alone);
  }
  for (const [id, b] of view.buckets) {
    if (ids.has(id)) continue;
    forgetPast(id, serverNow());
    b.el.remove();
    view.buckets.delete(id);
  }
  arrange(more);
  wake();
}

function arrange(more) {
  const levels = [...view.buckets.values()].reduce((n, b) => n + b.levels.length, 0), several = view.buckets.size > 1;
  setAttr($("buckets"), "data-size", levels > 3 ? "many" : levels > 2 ? "some" : levels === 2 ? "two" : "one");
  $("buckets").classList.toggle("several", several);
  $("buckets-empty").hidden = view.buckets.size > 0;
  $("buckets-more").hidden = !more;
  setText($("buckets-more"), more ? `and ${plural(more, "bucket")} more: those used or denied last are shown` : "");
}

// rain shows requests as drops in the buckets that decided them.
export function rain(requests) {
  const places = new Map();
  for (const r of requests) {
    const id = idOf(r), b = view.buckets.get(id), nth = places.get(id) ?? 0;
    if (!b || r.status !== 429 && !r.allowed || nth > 20) continue;
    places.set(id, nth + 1);
    b.levels.forEach((level, i) => drop(level, r.allowed, levelY(level.shown / b.state.limits[i].capacity), nth));
  }
  if (calm.matches) return;
  for (const id of new Set(requests.filter((r) => r.status === 429).map(idOf))) {
    for (const level of view.buckets.get(id)?.levels ?? []) level.el.querySelector(".wall").animate([{ stroke: "var(--denied)" }, {}], { duration: 500 });
  }
}

// move shows the levels of a bucket as they are now, and returns when it has to be done again.
export function move(b, now, passed) {
  let wait = Infinity;
  b.state.limits.forEach((limit, i) => {
    const level = b.levels[i], busy = asked(b.state, now), tokens = busy ? limit.tokens : tokensAt(limit, b.state.at, now);
    const left = show(level, limit, tokens, passed, calm.matches), whole = Math.floor(tokens + 1e-6);
    if (whole > level.whole && now - level.gained > 250 && !busy) {
      level.gained = now;
      gain(level, levelY(tokens / limit.capacity));
    }
    level.whole = whole;
    if (left > 0) wait = 0;
    if (busy) wait = Math.min(wait, 100);
    // A quarter of a pixel, or a tenth of a token, is as little as is to be seen.
    const least = limit.capacity < 100 ? Math.min(0.1, limit.capacity / high / 4) : limit.capacity / high / 4;
    wait = Math.min(wait, untilNext(limit, b.state.at, now, least));
  });
  return wait;
}

let last = 0;
onFrame((time) => {
  const now = serverNow(), passed = time - last;
  last = time;
  let wait = Infinity;
  for (const b of view.buckets.values()) wait = Math.min(wait, move(b, now, passed));
  return wait;
});
