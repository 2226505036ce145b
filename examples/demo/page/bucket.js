// One bucket as a picture: the water stands as high as the tokens.
import { make, makeSVG, setAttr, setText } from "./dom.js";
import { ownerOf } from "./owners.js";
import { rule, short } from "./words.js";

const shape = { top: 24, bottom: 168, wall: "M16 16 L33 160 Q34 170 44 170 L116 170 Q126 170 127 160 L144 16", ids: 0 };
export const high = shape.bottom - shape.top; // in units of the picture

export const levelY = (part) => shape.bottom - Math.min(1, Math.max(0, part)) * high;

// scale draws the marks at the wall.
function scale(limit) {
  const ticks = makeSVG("g"), steps = limit.capacity <= 10 ? limit.capacity : 4;
  for (let i = 0; i <= steps; i++) {
    const y = levelY(i / steps), x = 144 - (y - 16) * 17 / 144, main = i === 0 || i === steps || i * 2 === steps;
    if (i > 0) ticks.append(makeSVG("line", { class: "tick", x1: x - (main ? 13 : 8), x2: x - 2, y1: y, y2: y }));
    if (!main) continue;
    const label = makeSVG("text", { class: "label", x: x + 6, y: y + 3.5 });
    label.textContent = short(limit.capacity * i / steps);
    ticks.append(label);
  }
  return ticks;
}

// drawLevel makes the picture of one limit.
function drawLevel(limit, owner) {
  const id = `inside-${++shape.ids}`, what = limit.unit || "requests";
  const wave = "M-20 0 Q0 -7 20 0 T60 0 T100 0 T140 0 T180 0 V10 H-20 Z";
  const water = makeSVG("g", {}, makeSVG("path", { d: wave, class: "wave" }), makeSVG("rect", { class: "water", y: 3, width: 180, height: 180 }));
  const number = makeSVG("text", { class: "number", x: 80, y: 104 }), of = makeSVG("text", { class: "of", x: 80, y: 122 });
  const air = makeSVG("g", { class: "air" });
  of.textContent = `of ${short(limit.capacity)} tokens`;
  const svg = makeSVG("svg", { viewBox: "0 -34 180 222", "aria-hidden": "true" },
    makeSVG("clipPath", { id }, makeSVG("path", { d: shape.wall + " Z" })),
    makeSVG("path", { class: "inside", d: shape.wall + " Z" }),
    makeSVG("g", { "clip-path": `url(#${id})` }, water),
    scale(limit), makeSVG("path", { class: "wall", d: shape.wall }), number, of, air);
  const el = make("div", { class: "level", "data-limit": limit.name, role: "meter", "aria-valuemin": 0, "aria-valuemax": limit.capacity, "aria-valuenow": 0,
    "aria-label": `Tokens of ${owner}, limit ${limit.name}` },
  svg, make("p", { class: "rule", text: rule(limit) }));
  if (limit.unit) el.append(make("p", { class: "counts", text: `counts ${what}` }));
  return { el, water, number, air, shown: 0, whole: 0, gained: 0 };
}

// shapeOf tells whether a bucket must be drawn anew.
const shapeOf = (state, title) => JSON.stringify([title, ...state.limits.map((l) => [l.name, l.unit, l.capacity, rule(l)])]);

// build draws the bucket of b.state into a container, if it does not look like that already. It keeps the water where it
// stood.
export function build(b, container, title = ownerOf(b.state)) {
  const looks = shapeOf(b.state, title);
  if (b.looks === looks) return;
  b.looks = looks;
  const before = b.levels;
  b.levels = b.state.limits.map((l) => drawLevel(l, title));
  if (before?.length === b.levels.length) b.levels.forEach((l, i) => Object.assign(l, { shown: Math.min(before[i].shown, b.state.limits[i].capacity), whole: Infinity }));
  const el = make("div", { class: "bucket", "data-key": b.state.key, role: "group", "aria-label": `Bucket of ${title}` },
    make("div", { class: "levels" }, ...b.levels.map((l) => l.el)),
    make("p", { class: "owner", title: b.state.key }, make("span", { class: "key", "aria-hidden": "true" }), make("span", { class: "whose", text: title })),
    make("p", { class: "by", text: b.state.replica ? "decides alone" : "by this process alone" }));
  if (b.el) b.el.replaceWith(el); else container.append(el);
  b.el = el;
}

// show moves the water of a level towards its tokens, as far as it gets in so many ms. It returns how far it still has to go.
export function show(level, limit, tokens, passed, calm) {
  level.shown = calm ? tokens : level.shown + (tokens - level.shown) * (1 - Math.exp(-Math.min(passed, 50) / (tokens < level.shown ? 240 : 90)));
  const left = Math.abs(tokens - level.shown) / limit.capacity * high;
  if (left < 0.3) level.shown = tokens;
  const part = level.shown / limit.capacity, below = 8 * Math.max(0, 1 - part * 20); // no waves in an empty bucket
  setAttr(level.water, "transform", `translate(0 ${(levelY(part) + below).toFixed(2)})`);
  setAttr(level.el, "data-tokens", tokens.toFixed(2));
  const tenths = limit.mode === "continuous" && tokens < limit.capacity ? 1 : 0;
  setText(level.number, limit.capacity < 100 ? (Math.floor(tokens * 10) / 10).toFixed(tenths) : short(Math.floor(tokens)));
  setAttr(level.el, "aria-valuenow", String(Math.floor(tokens)));
  setAttr(level.el, "aria-valuetext", `${Math.floor(tokens)} of ${limit.capacity} tokens, ${rule(limit)}`);
  return left < 0.3 ? 0 : left;
}

