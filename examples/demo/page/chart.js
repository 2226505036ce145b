// The chart: tokens and requests of 30 seconds. It moves while something happens, and stands still after; its times are
// those of the clock, so that it tells the truth in both cases.
import { $, setText } from "./dom.js";
import { onFrame, wake } from "./frames.js";
import { serverNow } from "./clock.js";
import { tokensAt } from "./level.js";
import { colourOf, ownerOf } from "./owners.js";
import { levelBetween, span, stateAt } from "./past.js";
import { drawMarks, lane } from "./marks.js";
import { sumBins, view } from "./view.js";
import { clockTime, plural, short } from "./words.js";

let inks = {};

// mixInks reads the theme's colours for the canvas, which knows no custom properties.
export function mixInks() {
  inks = {};
  for (const el of document.querySelectorAll("[data-ink]")) inks[el.dataset.ink] = getComputedStyle(el).color;
  inks.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  chart.drawn = -Infinity;
  wake();
}

const chart = { drawn: -Infinity, now: 0, moved: 0, width: 0 };
view.cleared.push(() => { chart.drawn = -Infinity; });

// moves tells whether the chart has something new to show: requests, or water that rises by more than a pixel in ten seconds.
function moves(now) {
  if (now - view.lastBin * 100 < 1500) return true;
  for (const b of view.buckets.values()) {
    if (b.state.alone) return true;
    for (const l of b.state.limits) {
      const left = l.capacity - tokensAt(l, b.state.at, now);
      if (left > 0 && l.rate * 10e3 / l.interval_ms > l.capacity / 140) return true;
    }
  }
  return false;
}

onFrame((time) => {
  const now = serverNow(), canvas = $("timeline");
  if (moves(now)) chart.moved = now;
  const live = now - chart.moved < 1000, resized = canvas.clientWidth !== chart.width;
  if (!live && chart.now > 0 && !resized && chart.drawn > -Infinity) return Infinity;
  if (live && time - chart.drawn < 30 && !resized) return 30;
  if (live || chart.now === 0 || chart.drawn === -Infinity) chart.now = now;
  chart.drawn = time;
  chart.width = canvas.clientWidth;
  draw(sized(canvas), chart.now);
  summarize(chart.now, live);
  return live ? 33 : Infinity;
});

// sized is the canvas' context, at the screen's own resolution.
function sized(canvas) {
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  g.font = inks.font;
  return { g, w, h };
}

// largest is the largest capacity of the nth limits that are to be seen: the axis counts tokens, of the past and of now.
function largest(nth, now) {
  let most = 0;
  for (const past of view.past.values()) {
    past.forEach((state, i) => {
      if ((past[i + 1]?.at ?? Infinity) > now - span) most = Math.max(most, state.limits[nth]?.capacity ?? 0);
    });
  }
  return most;
}

function draw({ g, w, h }, now) {
  const tops = [largest(0, now) || 10, largest(1, now)], several = view.buckets.size > 1;
  const plot = { left: 58, right: w - (several ? 66 : 10) - (tops[1] ? 40 : 0), top: 10, low: h - 90, h, now, inks };
  plot.x = (at) => plot.right - (now - at) / span * (plot.right - plot.left);
  plot.y = (tokens, nth) => plot.low - tokens / tops[nth] * (plot.low - plot.top);
  drawBands(g, plot);
  drawGrid(g, plot, tops);
  const ends = [];
  for (const [id, past] of view.past) for (let nth = 0; nth < 2; nth++) drawTokens(g, id, past, nth, plot, ends);
  drawOwners(g, ends, plot, tops[1] ? 40 : 6);
  drawMarks(g, plot);
  $("legend-second").hidden = !tops[1];
  $("legend-tokens").dataset.ink = several ? "owners" : "tokens";
}

// steps are the values to write at an axis up to a top.
function steps(top) {
  const rough = top / 4, ten = 10 ** Math.floor(Math.log10(rough)), step = Math.max(1, [1, 2, 2.5, 5, 10].map((m) => m * ten).find((s) => s >= rough - 1e-9));
  const list = [];
  for (let v = 0; v <= top - step / 2; v += step) list.push(v);
  return [...list, top];
}

function drawGrid(g, plot, tops) {
  const { left, right, low, h, x, now } = plot;
  g.strokeStyle = inks.line; g.fillStyle = inks.soft; g.lineWidth = 1;
  g.textBaseline = "middle";
  for (const v of steps(tops[0])) {
    const y = Math.round(plot.y(v, 0)) + 0.5;
    g.beginPath(); g.moveTo(left, y); g.lineTo(right, y); g.stroke();
    g.textAlign = "right"; g.fillText(short(v), left - 8, y);
  }
  g.fillStyle = inks.second; g.textAlign = "left";
  if (tops[1]) for (const v of steps(tops[1])) g.fillText(short(v), right + 6, plot.y(v, 1));
  g.fillStyle = inks.soft; g.textAlign = "right";
  for (const [i, kind] of ["allowed", "denied", "error"].entries()) g.fillText(kind, left - 8, lane(low, i));
  g.textAlign = "center"; g.textBaseline = "alphabetic";
  const every = right - left > 480 ? 5000 : 10e3;
  for (let at = Math.ceil((now - span) / every) * every; at <= now; at += every) {
    const px = x(at);
    g.beginPath(); g.moveTo(px, low); g.lineTo(px, low + 5); g.stroke();
    if (px > left + 20 && px < right - 8) g.fillText(clockTime(at, 0), px, h - 4);
  }
}

// drawBands marks the times in which a process decided alone.
function drawBands(g, { left, right, top, low, x, now }) {
  const bands = [];
  for (const past of view.past.values()) {
    past.forEach((state, i) => {
      const from = Math.max(left, x(state.at)), to = Math.min(right, x(Math.min(past[i + 1]?.at ?? now, state.until ?? now)));
      if (state.alone && to > from) bands.push({ from, to });
    });
  }
  bands.sort((a, b) => a.from - b.from);
  const whole = []; // bands that touch are one
  for (const b of bands) {
    if (whole.length > 0 && b.from <= whole.at(-1).to + 2) whole.at(-1).to = Math.max(whole.at(-1).to, b.to);
    else whole.push(b);
  }
  g.textAlign = "left"; g.textBaseline = "top";
  for (const { from, to } of whole) {
    g.fillStyle = inks.band;
    g.fillRect(from, top, to - from, low - top);
    g.fillStyle = inks.error;
    if (to - from > 66) g.fillText("Redis off", from + 5, top + 4);
  }
  $("legend-alone").hidden = whole.length === 0;
}

// drawTokens draws one limit's tokens, from the states reported and what follows from each.
function drawTokens(g, id, past, nth, plot, ends) {
  const several = view.past.size > 1, ink = several ? inks[`owner${colourOf(id, past[0])}`] ?? inks.soft : nth === 0 ? inks.tokens : inks.second;
  g.strokeStyle = ink;
  g.lineWidth = 2; g.lineJoin = "round"; g.setLineDash(nth === 0 ? [] : [6, 4]);
  g.beginPath();
  let i = 0, pen = false, first = 0, gaps = 0, y = 0, state = null;
  for (let px = plot.left; px <= plot.right; px++) {
    const at = plot.now - (plot.right - px) / (plot.right - plot.left) * span;
    i = Math.max(0, i);
    const found = stateAt(past, at, i), limit = found >= 0 && past[found].limits[nth];
    if (!limit) { if (pen) gaps++; pen = false; continue; }
    i = found;
    state = past[i];
    y = plot.y(levelBetween(past, i, nth, at, plot.now), nth);
    if (pen) g.lineTo(px, y); else { g.moveTo(px, y); first ||= px; }
    pen = true;
  }
  g.stroke();
  g.setLineDash([]);
  if (nth === 0 && pen && view.buckets.size > 1) ends.push({ name: ownerOf(state).replace(/^replica /, ""), y, ink });
  if (nth === 0 && pen && gaps === 0 && !several) { // the water below the curve
    g.lineTo(plot.right, plot.low); g.lineTo(first, plot.low); g.closePath();
    g.globalAlpha = 0.12; g.fillStyle = inks.tokens; g.fill(); g.globalAlpha = 1;
  }
}

// drawOwners writes whose each curve is at its end, one below the other where they meet, and clips names that are long.
function drawOwners(g, ends, { right }, room) {
  g.textAlign = "left"; g.textBaseline = "middle";
  let above = -Infinity;
  for (const end of ends.sort((a, b) => a.y - b.y)) {
    above = Math.max(end.y, above + 13);
    g.fillStyle = end.ink;
    let name = end.name;
    while (name.length > 1 && g.measureText(name).width > 58) name = `${name.replace(/…$/, "").slice(0, -1)}…`;
    g.fillText(name, right + room, above);
  }
}

// summarize says the chart in words, and to a screen reader at most every 10 seconds.
const said = { at: -Infinity };
function summarize(now, live) {
  const sum = sumBins(now - span, now + 1000), all = sum.allowed + sum.denied + sum.error;
  const errors = sum.error > 0 ? `, ${plural(sum.error, "error")}` : "", when = live ? "In the last 30 seconds" : `In the 30 seconds to ${clockTime(now, 0)}`;
  setText($("summary"), all === 0 ? "No requests yet." : `${when}: ${sum.allowed} allowed, ${sum.denied} denied${errors}.`);
  if (all === 0 || performance.now() - said.at < 10e3 || $("summary").textContent === $("summary-said").textContent) return;
  said.at = performance.now(); // the first request is told at once
  setText($("summary-said"), $("summary").textContent);
}
addEventListener("resize", wake);
