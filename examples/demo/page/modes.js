// The three modes side by side: every request asks a bucket of each, with the same limit.
import { build, levelY } from "./bucket.js";
import { move } from "./buckets.js";
import { $, make, setAttr, setText } from "./dom.js";
import { drop } from "./drops.js";
import { onFrame, wake } from "./frames.js";
import { serverNow } from "./clock.js";
import { showPanel } from "./scenarios.js";
import { view } from "./view.js";

const modes = { on: false, states: [], buckets: [], sums: [] };
const told = {
  continuous: "Tokens drip in, all the time.",
  stepped: "All come at once, an interval after the first use.",
  aligned: "All come at once, when the clock strikes.",
};

export const modesShown = () => modes.on;

// hearModes takes the three buckets' states.
export function hearModes(states = []) {
  modes.states = states;
  if (modes.on) draw();
}

function draw() {
  modes.states.forEach((state, i) => {
    const b = modes.buckets[i] ??= {};
    b.state = state;
    const before = b.el;
    build(b, $("modes"), state.limits[0].mode);
    if (b.el !== before) {
      const sums = modes.sums[i] ??= { allowed: 0, denied: 0 };
      b.sum = make("p", { class: "sum" });
      b.el.append(make("p", { class: "told", text: told[state.limits[0].mode] }), b.sum);
      say(b, sums);
    }
  });
  $("modes-none").hidden = modes.states.length > 0;
  wake();
}

function say(b, sums) { setText(b.sum, `${sums.allowed} allowed, ${sums.denied} denied`); }

// rainModes shows requests as drops in each mode's bucket.
export function rainModes(requests) {
  const places = [0, 0, 0];
  for (const r of requests) {
    r.modes?.forEach((allowed, i) => {
      const sums = modes.sums[i] ??= { allowed: 0, denied: 0 }, b = modes.buckets[i];
      sums[allowed ? "allowed" : "denied"]++;
      if (!modes.on || !b?.el) return;
      say(b, sums);
      if (places[i]++ < 20) drop(b.levels[0], allowed, levelY(b.levels[0].shown / b.state.limits[0].capacity), places[i]);
    });
  }
}

// showModes turns the comparison on or off. The buckets in force are not on the stage meanwhile.
export function showModes(on) {
  modes.on = on;
  $("modes-scene").hidden = !on;
  $("live-scene").hidden = on;
  for (const [id, pressed] of [["scene-modes", on], ["scene-live", !on && $("scene-replicas").getAttribute("aria-pressed") !== "true"]]) setAttr($(id), "aria-pressed", String(pressed));
  showPanel();
  if (on) draw();
  else {
    $("modes").replaceChildren();
    modes.buckets = [];
  }
  wake();
}

export function leaveModes() { if (modes.on) showModes(false); }

view.cleared.push(() => {
  modes.sums = [];
  modes.buckets.forEach((b, i) => say(b, modes.sums[i] = { allowed: 0, denied: 0 }));
});

let last = 0;
onFrame((time) => {
  const now = serverNow(), passed = time - last;
  last = time;
  return modes.on ? modes.buckets.reduce((wait, b) => Math.min(wait, move(b, now, passed)), Infinity) : Infinity;
});
