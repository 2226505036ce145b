// A bucket as a picture: up to 20 tokens are discs to count, more are water. It
// shows what Remaining says, and nothing else.

import { between, bound, draw, say, set } from "./dom.js";
import { around, calm, latest, leave, travel } from "./time.js";

export const countable = 20;
const columns = 5;

// The parts of a bucket: the height of its mouth and the radius of a corner in
// half widths, and in pitches, from one disc to the next, a disc's radius, the
// room beside the discs, and below the middle of the lowest.
const form = { mouth: 0.12, corner: 0.15, disc: 0.42, beside: 0.3, below: 0.58 };

// bucketIn draws a bucket around x, on the floor. In a large one more than ten
// discs are smaller.
export function bucketIn(parent, x, floor, pitch, { tapY, large = false } = {}) {
  const half = (columns / 2 + form.beside) * pitch;
  const b = { x, floor, pitch, half, tapY, large, columns, capacity: 0, discs: [], rim: floor };
  b.body = draw("path", { class: "body" });
  b.water = draw("path", { class: "water" });
  b.edge = draw("path", { class: "edge" });
  b.slots = draw("g", { class: "slots" });
  b.tokens = draw("g", { class: "tokens" });
  b.air = draw("g", { class: "tokens air" });
  b.mouth = draw("ellipse", { class: "mouth", cx: x, rx: half, ry: half * form.mouth });
  b.lid = draw("ellipse", { class: "lid", cx: x, rx: half, ry: half * form.mouth });
  b.ring = draw("path", { class: "ring", pathLength: 1 });
  b.el = draw("g", { class: "bucket" }, b.body, b.water, b.edge, b.slots, b.mouth, b.tokens, b.lid, b.ring, b.air);
  parent.append(b.el);
  return b;
}

const slotX = (b, i) => b.x + ((i % b.columns) - (b.columns - 1) / 2) * b.pitch;
const slotY = (b, i) => b.floor - b.pitch * (form.below + Math.floor(i / b.columns));

function rowsOf(b, capacity) {
  if (b.columns > columns) return 3;
  return capacity > countable ? countable / columns : Math.max(1, Math.ceil(capacity / columns));
}

// shape draws what depends on the capacity alone.
function shape(b, capacity) {
  if (b.capacity === capacity) return;
  b.capacity = capacity;
  const { x, floor, half } = b;
  if (b.large) {
    b.columns = capacity > 10 ? 7 : columns;
    b.pitch = half / (b.columns / 2 + form.beside);
  }
  const disc = b.pitch * form.disc;
  const r = half * form.corner;
  const [left, right] = [x - half, x + half];
  b.ry = half * form.mouth;
  b.rim = floor - rowsOf(b, capacity) * b.pitch - disc;
  const sides = `M${left} ${b.rim}V${floor - r}Q${left} ${floor} ${left + r} ${floor}` +
    `H${right - r}Q${right} ${floor} ${right} ${floor - r}V${b.rim}`;
  for (const el of [b.body, b.edge]) set(el, "d", sides);
  for (const el of [b.mouth, b.lid]) set(el, "cy", b.rim);
  set(b.ring, "d", `M${x} ${b.rim - b.ry}A${half} ${b.ry} 0 1 1 ${x - 0.1} ${b.rim - b.ry}`);
  const n = capacity > countable ? 0 : capacity;
  const disks = (kind) => Array.from({ length: n }, (_, i) =>
    draw("circle", { class: kind, cx: slotX(b, i), cy: slotY(b, i), r: disc }));
  b.slots.replaceChildren(...disks("slot"));
  b.tokens.replaceChildren(...(b.discs = disks("token")));
  b.air.replaceChildren();
}

// water is what stands so high in a bucket, with its surface. In a corner it is
// as narrow as the bucket is there.
function water({ x, floor, half, ry }, high) {
  if (high <= 0) return "";
  const r = half * form.corner;
  const low = Math.min(high, r);
  const s = 1 - Math.sqrt(low / r); // how far into the curve of the corner
  const narrow = half - r * s * s;
  const at = (y) => (floor - y).toFixed(1);
  return `M${x - narrow} ${at(high)}A${narrow} ${ry} 0 0 1 ${x + narrow} ${at(high)}V${at(low)}` +
    `Q${x + half - r * s} ${floor} ${x + half - r} ${floor}` +
    `H${x - half + r}Q${x - half + r * s} ${floor} ${x - narrow} ${at(low)}Z`;
}

const rises = 260; // ms that a token which is taken is seen
const falls = 300; // ms that a token which comes back is seen

// showBucket draws the nth limit of a bucket as it is at t, and returns that
// state, or null if it is not known. Tokens on their way are drawn as part of a
// change at its instant: one that is taken rises to the request, one that comes
// back falls from the tap and is there on time.
export function showBucket(b, moments, nth, t, cost = 1) {
  const moment = latest(moments, t) ?? moments[0];
  const l = moment?.limits[nth];
  b.el.classList.toggle("unknown", !l);
  if (!l) return null;
  shape(b, l.capacity);
  const near = around(moments, t, rises, calm.matches ? 0 : falls);
  if (l.capacity <= countable) showDiscs(b, near, moments, nth, l, t);
  else showWater(b, near, moments, nth, l, t);
  set(b.lid, "visibility", l.tokens < cost ? null : "hidden");
  const part = l.next_ms > 0 ? bound(1 - (moment.at + l.next_ms - t) / l.period_ms) : 0;
  set(b.ring, "stroke-dasharray", `${part.toFixed(4)} 2`);
  set(b.ring, "visibility", part > 0.01 ? null : "hidden");
  return { ...l, moment };
}

function showDiscs(b, near, moments, nth, l, t) {
  b.discs.forEach((disc, i) => {
    set(disc, "visibility", i < l.tokens ? null : "hidden");
    set(b.slots.children[i], "visibility", i < l.tokens ? "hidden" : null);
  });
  set(b.water, "d", "");
  let air = 0; // discs on their way
  let had = latest(moments, t - rises)?.limits[nth]?.tokens ?? l.tokens;
  for (const n of near) {
    const has = n.limits[nth]?.tokens ?? had;
    if (n.limits[nth]?.capacity !== l.capacity || calm.matches) continue;
    const taken = n.show <= t;
    const p = taken ? (t - n.show) / rises : (n.show - t) / falls;
    for (let i = has; taken && n.by && i < had; i++) {
      const to = [b.x - b.half * 0.5, b.rim - (30 * b.pitch) / 44];
      fly(b, air++, between(slotX(b, i), to[0], p), between(slotY(b, i), to[1], p), 1 - p * p);
    }
    for (let i = had; !taken && i < has; i++) {
      const from = [b.x + b.half * 0.55, b.tapY ?? b.rim - b.pitch];
      fly(b, air++, between(slotX(b, i), from[0], p), between(slotY(b, i), from[1], p), 1);
    }
    had = has;
  }
  while (b.air.children.length > air) b.air.lastChild.remove();
}

// fly puts the nth disc of those in the air somewhere.
function fly(b, nth, x, y, opacity) {
  const el = b.air.children[nth] ?? b.air.appendChild(draw("circle", { class: "token", r: b.pitch * form.disc }));
  set(el, "cx", x.toFixed(1));
  set(el, "cy", y.toFixed(1));
  set(el, "opacity", opacity.toFixed(2));
}

function showWater(b, near, moments, nth, l, t) {
  const last = near.findLast((n) => n.show <= t);
  const before = last && latest(moments, last.show - 0.01)?.limits[nth];
  let tokens = l.tokens;
  if (before?.capacity === l.capacity && !calm.matches) {
    tokens = between(before.tokens, tokens, bound((t - last.show) / 200));
  }
  set(b.water, "d", water(b, ((b.floor - b.rim) * tokens) / l.capacity));
  b.air.replaceChildren();
}

// pills draws requests on their way: to a place, where they are decided, and
// away from it. route tells from where, over what and to where, where those that
// are allowed and those that are denied go, and which part of that way they are
// seen. text is how large they are with a text; without it they are discs.
export function pills(layer, decisions, t, route, text) {
  const stay = calm.matches && text ? 4000 : leave;
  const beside = new Map(); // without motion those at one place stand side by side
  let n = 0;
  for (const d of around(decisions, t, stay, calm.matches ? 0 : travel)) {
    const way = route(d);
    if (!way) continue;
    const coming = d.show > t;
    const p = coming ? (d.show - t) / travel : (t - d.show) / stay; // how far from the place
    const [x, y] = calm.matches ? sideBySide(way, d, beside, text) : coming ? onTheWay(way, p) : leaving(way, d, p);
    const el = layer.children[n++] ?? layer.appendChild(pill(text));
    set(el, "class", `pill ${coming ? "asks" : d.allowed ? "ok" : d.status === 429 ? "no" : "failed"}`);
    set(el, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})${text > 1 ? ` scale(${text})` : ""}`);
    const seen = coming ? (1 - p) * 6 : (((!calm.matches && way.gone) || 1) - p) * 4;
    set(el, "opacity", bound(seen).toFixed(2));
    if (text) say(el.lastChild, coming ? "GET /" : String(d.status));
  }
  while (layer.children.length > n) layer.lastChild.remove();
}

function pill(text) {
  if (!text) return draw("g", {}, draw("circle", { r: 6 }));
  const box = draw("rect", { x: -29, y: -14, width: 58, height: 28, rx: 14 });
  return draw("g", {}, box, draw("text", { y: 5, class: "middle" }));
}

function onTheWay(way, p) {
  const path = [way.from, ...(way.via ?? []), way.to];
  const at = (1 - p) * (path.length - 1);
  const i = Math.min(Math.floor(at), path.length - 2);
  return [0, 1].map((k) => between(path[i][k], path[i + 1][k], at - i));
}

function leaving(way, d, p) {
  const [x, y] = way.to;
  if (d.allowed) return [between(x, way.allowed[0], p ** 1.25), between(y, way.allowed[1], p ** 1.25)];
  const [endX, endY] = way.denied; // it falls
  return [between(x, endX, p), between(y, endY, p * p) - 0.35 * (endY - y) * p * (1 - p)];
}

function sideBySide(way, d, beside, text) {
  const [x, y] = way.to;
  const place = `${x} ${d.allowed}`;
  const k = beside.get(place) ?? 0;
  beside.set(place, k + 1);
  if (!text) return [x + (d.allowed ? k * 13 : -(k + 1) * 13), y];
  if (d.allowed) return [x + (k % 10) * 30, y + Math.floor(k / 10) * 32 * text];
  const apart = 62 * text;
  const right = Math.max(x, 5.5 * apart); // five denials have room at the left, or in rows below
  return [right - ((k % 5) + 1) * apart, y + (Math.floor(k / 5) + (right > x)) * 32 * text];
}

// stairs is the tokens of moments over time as a path; x and y place it.
export function stairs(moments, nth, from, to, x, y) {
  let path = "";
  let drawn = false;
  for (const m of moments) {
    if (m.show > to) break;
    const l = m.limits[nth];
    const high = l && y(l.tokens / l.capacity).toFixed(1);
    if (l && m.show < from) path = `M${x(from).toFixed(1)} ${high}`;
    else if (l) path += drawn ? `H${x(m.show).toFixed(1)}V${high}` : `M${x(m.show).toFixed(1)} ${high}`;
    drawn = Boolean(l);
  }
  return drawn ? `${path}H${x(to).toFixed(1)}` : path;
}

// marks is requests over time as a path: a dot each, or a cross. Those of a burst
// move apart, so that they can be counted: to the right, or at the right edge to
// the left.
export function marks(decisions, from, to, x, y, { cross = false, left = false } = {}) {
  const list = decisions.filter((d) => d.show > from && d.show <= to).map((d) => x(d.show));
  const apart = 7;
  for (let i = list.length - 2; left && i >= 0; i--) list[i] = Math.min(list[i], list[i + 1] - apart);
  for (let i = 1; !left && i < list.length; i++) list[i] = Math.max(list[i], list[i - 1] + apart);
  const mark = (at) => cross ? `M${(at - 2.5).toFixed(1)} ${y - 2.5}l5 5m0-5l-5 5` : `M${at.toFixed(1)} ${y}h0`;
  return list.map(mark).join("");
}
