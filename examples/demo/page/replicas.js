// Two replicas of the app on one bucket in Redis, and what they do without it.
import { $, setAttr, setText } from "./dom.js";
import { onFrame } from "./frames.js";
import { serverNow } from "./clock.js";
import { tokensAt } from "./level.js";
import { post } from "./notes.js";
import { modesShown, showModes } from "./modes.js";
import { view } from "./view.js";
import { plural } from "./words.js";

let state = { available: false, reason: "", on: false, redis: false };

export function hearReplicas(now) {
  state = now;
  setAttr($("scene-replicas"), "aria-pressed", String(state.on));
  setAttr($("scene-live"), "aria-pressed", String(!state.on && !modesShown()));
  if (state.on && modesShown()) showModes(false);
  $("replicas").hidden = !state.on;
  setAttr($("redis"), "aria-checked", String(state.redis));
  setText($("redis-says"), state.redis ? "on: both replicas use the same bucket" : "off: each replica decides alone, from a bucket of its own");
  if (state.available || state.on) setText($("replicas-note"), "");
}

// choose shows a scene. Two replicas serve everybody: the others' pages show them too.
async function choose(scene) {
  if (scene === "replicas" && !state.available) return setText($("replicas-note"), `Two replicas: ${state.reason}.`);
  setText($("replicas-note"), "");
  showModes(scene === "modes");
  if (state.on === (scene === "replicas")) return;
  setText($("replicas-note"), await post("/api/replicas", "POST", { on: !state.on }));
}

// drift says how far the replicas' levels are apart.
onFrame(() => {
  const [a, b] = [...view.buckets.values()].filter((x) => x.state.replica).map((x) => x.state);
  if (!state.on || !a || !b) return Infinity;
  const now = serverNow(), of = (s) => tokensAt(s.limits[0], s.at, now), apart = Math.abs(of(a) - of(b));
  setText($("drift"), apart < 0.5 ? "They agree." : `They are ${plural(Math.round(apart), "token")} apart.`);
  return Infinity;
});

export function wireScenes() {
  $("scene-live").addEventListener("click", () => choose("live"));
  $("scene-modes").addEventListener("click", () => choose("modes"));
  $("scene-replicas").addEventListener("click", () => choose("replicas"));
  $("redis").addEventListener("click", async () => {
    setText($("replicas-note"), await post("/api/replicas", "POST", { redis: !state.redis }));
  });
}
