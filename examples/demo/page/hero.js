// The first screen: one bucket, what comes to it, and the last 30 seconds.

import { showDecision } from "./answer.js";
import { play } from "./ask.js";
import { bucketIn, countable, marks, pills, showBucket, stairs } from "./bucket.js";
import { $, again, draw, duration, label, plural, say, set, short } from "./dom.js";
import { knob, step, valueOf } from "./knob.js";
import { bucketId, chapterOf, frames, latest, restOf } from "./time.js";

const width = 720;
const hero = { per: 1, high: 300, floor: 290, x: 480, pitch: 83.5, drawn: null };
const strip = { width, height: 90, span: 30e3 };

export function buildHero() {
  const svg = $("picture");
  hero.bucket = bucketIn(svg, hero.x, hero.floor, hero.pitch, { tapY: 22, large: true });
  hero.number = label(112, 244, "", "number middle");
  hero.of = label(112, 268, "", "of middle");
  hero.by = label(112, 288, "", "of middle");
  hero.pills = draw("g", { class: "pills" });
  buildTap();
  buildGrip(svg);
  buildTag();
  hero.stays = label(0, 0, "", "of end");
  svg.append(hero.number, hero.of, hero.by, hero.tap, hero.tapSays, hero.grip, hero.stays, hero.pills, hero.tag);
  buildStrip();
  for (const [button, script, order] of [["burst", "burst", { n: 15 }], ["one", "one", {}], ["fill", "fill", {}]]) {
    $(button).addEventListener("click", () => play("drain", script, order));
  }
  frames.push(drawHero);
}

// buildTap draws the tap, whose wheel turns the rate.
function buildTap() {
  hero.pipe = draw("path", { class: "pipe" });
  const touch = draw("rect", { x: 600, y: -4, width: 116, height: 34, class: "touch" });
  const wheel = draw("circle", { class: "wheel", cx: 662, cy: 12, r: 10 });
  const spokes = draw("path", { class: "spokes", d: "M655 12h14M662 5v14" });
  hero.tap = draw("g", { id: "tap", class: "tap" }, touch, hero.pipe, wheel, spokes);
  hero.tapSays = label(592, 17, "", "of end");
  knob(hero.tap, "rate", "Tap: tokens that come back");
}

// buildGrip draws the grip at the rim, which turns the capacity.
function buildGrip(svg) {
  hero.burst = label(-16, -9, "", "end");
  hero.most = label(-16, 7, "", "of end");
  const touch = draw("rect", { x: -66, y: -16, width: 92, height: 32, class: "touch" });
  const arrows = draw("path", { class: "spokes", d: "M-3-2L0-5L3-2M-3 2L0 5L3 2" });
  hero.grip = draw("g", { id: "rim", class: "grip" }, touch, draw("circle", { r: 9 }), arrows, hero.burst, hero.most);
  knob(hero.grip, "capacity", "Rim: the bucket’s capacity", (start, dx, dy) => {
    const up = (-dy * width) / svg.getBoundingClientRect().width;
    if (start > countable) return step("capacity", start, Math.round(up / 8));
    const tokens = start + (up / hero.bucket.pitch) * hero.bucket.columns; // as many as the rim has room for
    const beyond = Math.max(0, Math.round((tokens - countable) / 2));
    return Math.max(1, Math.round(Math.min(tokens, countable)) + beyond);
  });
}

// buildTag draws the tag that says why a request was denied.
function buildTag() {
  hero.why = draw("tspan", { class: "strong" });
  hero.when = draw("tspan");
  hero.tagBox = draw("rect", { height: 28, rx: 8 });
  const text = draw("text", { x: 14, y: 20 }, hero.why, hero.when);
  hero.tag = draw("g", { class: "tag", visibility: "hidden" }, hero.tagBox, text);
}

// low reports whether the picture is a phone's, and has a line below the bucket.
const low = () => hero.high > 300;

// sizeHero fits the picture to its place: letters stay large enough.
export function sizeHero(wideFrom) {
  const svg = $("picture");
  hero.high = svg.clientWidth < wideFrom ? 364 : 300;
  set(svg, "viewBox", `0 0 ${width} ${hero.high}`);
  hero.per = Math.max(width / svg.clientWidth, hero.high / svg.clientHeight) || 1; // units a pixel
  const letters = Math.max(1, hero.per);
  svg.style.setProperty("--per", letters);
  set(hero.tapSays, "y", 7 + 10 * letters);
  set(hero.of, "y", 252 + 15 * letters);
  set(hero.by, "y", 252 + 33 * letters);
  set(hero.burst, "y", low() ? 5 : 7 - 16 * letters);
  set(hero.most, "y", low() ? 5 + 17 * letters : 7);
  strip.width = $("strip").clientWidth || width;
  set($("strip"), "viewBox", `0 0 ${strip.width} ${strip.height}`);
}

const modes = { stepped: ", at once", aligned: ", by the clock" };

function drawHero(t) {
  const chapter = chapterOf("drain");
  const d = latest(chapter.decisions, t);
  const moments = chapter.buckets.get(d && bucketId(d)) ?? [...chapter.buckets.values()][0] ?? [];
  const cost = chapter.settings?.cost ?? 1;
  const b = hero.bucket;
  const l = showBucket(b, moments, 0, t, cost);
  if (!l) return 1000;
  const spout = b.x + b.half * 0.55;
  set(hero.pipe, "d", `M716 12H${spout + 8}Q${spout} 12 ${spout} 20V${(b.rim - b.ry * 0.84).toFixed(1)}`);
  const rate = `${plural(valueOf("rate"), "token")} each ${duration(valueOf("interval_ms"))}`;
  say(hero.tapSays, rate + (modes[l.mode] ?? ""));
  say(hero.number, short(l.tokens));
  hero.number.classList.toggle("long", hero.number.textContent.length > 4);
  say(hero.of, `of ${low() ? short(l.capacity) : plural(l.capacity, "token")} left`);
  say(hero.by, l.moment.source === "fallback" ? "by this process alone" : "");
  set(hero.grip, "transform", `translate(${b.x - b.half} ${b.rim})`);
  say(hero.burst, `burst ${short(l.capacity)}`);
  say(hero.most, `${low() ? "" : "at most "}${short(Math.floor(l.capacity / Math.max(1, cost)))} at once`);
  showStays(moments, l);
  const lane = b.rim - b.ry - 20;
  const way = {
    from: [-10, lane], to: [b.x - b.half * 0.5, lane],
    allowed: [840, lane], gone: 0.76, denied: [b.x - b.half - 40, b.floor - 12],
  };
  pills(hero.pills, chapter.decisions, t, () => way, Math.max(1, hero.per * 0.95));
  showTag(d, t, l, cost);
  if (d && d !== hero.drawn) showDecision(d);
  hero.drawn = d;
  drawStrip(moments, chapter.decisions, t);
  const moving = moments.findLast((m) => m.by)?.show > t - strip.span - 1000;
  return Math.min(restOf(chapter, t), moving ? 33 : Infinity);
}

// showStays says at the rim what a changed capacity leaves: what was taken stays
// taken. It ends with the next change of the bucket.
function showStays(moments, l) {
  const before = moments[moments.indexOf(l.moment) - 1]?.limits[0]?.capacity ?? l.capacity;
  const taken = l.capacity - l.tokens;
  const stays = `${plural(taken, "token")} taken ${taken === 1 ? "stays" : "stay"} taken`;
  say(hero.stays, before === l.capacity || taken === 0 ? "" : `${short(before)} → ${short(l.capacity)}: ${stays}`);
  const b = hero.bucket;
  set(hero.stays, "x", low() ? 716 : b.x + b.half * 0.55 - 14);
  set(hero.stays, "y", low() ? hero.high - 20 : b.rim - b.ry - 8);
}

// showTag says why the latest request was denied, and counts down to when one is
// allowed. It ends when that has come, or when another limit holds.
function showTag(d, t, l, cost) {
  const wait = d?.retry_ms - (t - d?.at);
  const same = ["capacity", "rate", "interval_ms", "mode"].every((k) => d?.limits?.[0]?.[k] === l[k]);
  const denied = d?.status === 429;
  const waits = denied ? l.tokens < cost && same && (d.retry_ms < 0 || wait > 0) : t - d?.show < 4000;
  const on = d && !d.allowed && waits;
  set(hero.tag, "visibility", on ? null : "hidden");
  if (!on) return;
  const scale = Math.max(1, hero.per * 0.86);
  const place = low() ? [0, hero.high - 30 * scale] : [0, 98]; // on a phone below the bucket, in one line
  set(hero.tag, "transform", `translate(${place}) scale(${scale})`);
  set(hero.tagBox, "width", low() ? width / scale : 190);
  set(hero.tagBox, "height", low() ? 28 : 48);
  set(hero.when, "x", low() ? null : 14);
  set(hero.when, "dx", low() ? 5 : 0);
  set(hero.when, "dy", low() ? 0 : 18);
  say(hero.why, denied ? `denied: ${plural(d.remaining, "token")} left,` : `failed: status ${d.status}`);
  say(hero.when, denied ? again(d.retry_ms < 0 ? -1 : wait) : "");
}

// The strip: tokens left, and requests, over 30 seconds.
function buildStrip() {
  strip.base = draw("path", { class: "base" });
  strip.area = draw("path", { class: "area" });
  strip.line = draw("path", { class: "left" });
  strip.ok = draw("path", { class: "ok dots" });
  strip.no = draw("path", { class: "no crosses" });
  strip.top = label(0, 0, "", "of hanging");
  $("strip").append(strip.base, strip.area, strip.line, strip.ok, strip.no, strip.top);
}

function drawStrip(moments, decisions, t) {
  const from = t - strip.span;
  const floor = strip.height - 28;
  const x = (at) => (strip.width * (at - from)) / strip.span;
  const line = stairs(moments, 0, from, t, x, (part) => floor - (floor - 20) * part);
  const area = (part) => `M${part}V${floor}H${parseFloat(part)}Z`;
  set(strip.base, "d", `M0 ${floor + 1.5}H${strip.width}`);
  set(strip.line, "d", line);
  set(strip.area, "d", line.split("M").slice(1).map(area).join(""));
  const allowed = decisions.filter((d) => d.allowed);
  const denied = decisions.filter((d) => !d.allowed);
  set(strip.ok, "d", marks(allowed, from, t, x, strip.height - 17, { left: true }));
  set(strip.no, "d", marks(denied, from, t, x, strip.height - 6, { left: true, cross: true }));
  say(strip.top, plural(latest(moments, t)?.limits[0]?.capacity ?? 0, "token"));
}
