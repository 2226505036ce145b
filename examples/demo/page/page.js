"use strict";

// ---- small tools ----

const $ = (id) => document.getElementById(id);

// make builds an element. Text goes in as text, never as markup.
function make(tag, { class: name, text, ...attributes } = {}, ...children) {
  const el = document.createElement(tag);
  if (name) el.className = name;
  if (text !== undefined) el.textContent = text;
  for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
  el.append(...children);
  return el;
}

function makeSVG(tag, attributes = {}, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
  el.append(...children);
  return el;
}

// setText and setAttr touch the DOM only when something changed: they run in every frame.
function setText(el, text) { if (el.textContent !== text) el.textContent = text; }
function setAttr(el, name, value) { if (el.getAttribute(name) !== value) el.setAttribute(name, value); }

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const plural = (n, word) => `${short(n)} ${word}${n === 1 ? "" : "s"}`;

// short writes a number so that it fits: 7, 12.5, 1.2M.
function short(n) {
  if (Math.abs(n) >= 10000) return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n);
  return String(Math.round(n * 100) / 100);
}

function duration(ms) {
  if (ms < 1000) return `${short(ms)} ms`;
  if (ms < 120e3) return `${short(ms / 1000)} s`;
  if (ms < 7200e3) return `${short(ms / 60e3)} min`;
  return `${short(ms / 3600e3)} h`;
}

function micros(us) {
  if (us < 1000) return `${us.toFixed(us < 10 ? 1 : 0)} µs`;
  return `${(us / 1000).toFixed(us < 10000 ? 2 : 1)} ms`;
}

const kindOf = (r) => (r.allowed ? "allowed" : r.status === 429 ? "denied" : "error");

// ---- the server's clock ----

const clock = { offset: 0 };
const serverNow = () => performance.now() + clock.offset;

// heardAt corrects the clock: nothing can be heard before it was said.
function heardAt(at) { clock.offset = Math.max(clock.offset, at - performance.now()); }

// ---- what the page knows ----

const view = {
  settings: null, // in force
  frameworks: ["gin", "echo", "chi", "fiber", "http"],
  buckets: new Map(), // key → {state, its elements}
  past: new Map(), // key → its states of the last 30 s
  since: 0, // when the run began
  lastID: 0, // of the latest request
  denied: null, // the latest 429 that is waited for: {key, at}
  bins: new Map(), // requests by tenth of a second: {allowed, denied, error}
  lastBin: 0,
};

// tokensAt is the level of a limit at a time of the server, from the state it reported.
function tokensAt(limit, at, now) {
  const dt = now - at;
  if (limit.next_ms === 0 || dt <= 0) return limit.tokens;
  let gained = 0;
  if (limit.mode === "continuous") gained = limit.rate * dt / limit.interval_ms;
  else if (dt >= limit.next_ms) gained = limit.rate * (1 + Math.floor((dt - limit.next_ms) / limit.interval_ms));
  return Math.min(limit.capacity, limit.tokens + gained);
}

// asked tells whether requests were sent since a state, or are sure to have been in a flood: then nobody knows what
// became of the tokens that refilled.
function asked(state) {
  const busy = (bin) => Object.values(view.bins.get(bin) ?? {}).reduce((n, m) => n + m, 0);
  return view.lastBin * 100 > state.at || view.lastBin * 100 > state.at - 250 && busy(view.lastBin) + busy(view.lastBin - 1) > 40;
}

// waitFor is how long until all limits of a bucket have tokens for a request, in ms; Infinity for never.
function waitFor(state, now) {
  return Math.max(0, ...state.limits.map((l) => (l.retry_ms < 0 ? Infinity : l.retry_ms === 0 ? 0 : l.retry_ms - (now - state.at))));
}

// ---- buckets ----

const shape = { top: 24, bottom: 168, wall: "M16 16 L33 160 Q34 170 44 170 L116 170 Q126 170 127 160 L144 16", ids: 0 };
const levelY = (part) => shape.bottom - Math.min(1, Math.max(0, part)) * (shape.bottom - shape.top);

// drawLevel makes the SVG of one limit.
function drawLevel(limit) {
  const id = `inside-${++shape.ids}`;
  const wave = "M0 0 Q20 -7 40 0 T80 0 T120 0 T160 0 T200 0 T240 0 V10 H0 Z";
  const water = makeSVG("g", {}, makeSVG("path", { d: wave, class: "wave" }), makeSVG("rect", { class: "water", y: 3, width: 240, height: 180 }));
  const ticks = makeSVG("g");
  const steps = limit.capacity <= 10 ? limit.capacity : 4;
  for (let i = 0; i <= steps; i++) {
    const y = levelY(i / steps), x = 144 - (y - 16) * 17 / 144, main = i === 0 || i === steps || i * 2 === steps;
    if (i > 0) ticks.append(makeSVG("line", { class: "tick", x1: x - (main ? 13 : 8), x2: x - 2, y1: y, y2: y }));
    if (!main) continue;
    const label = makeSVG("text", { class: "label", x: x + 6, y: y + 3.5 });
    label.textContent = short(limit.capacity * i / steps);
    ticks.append(label);
  }
  const number = makeSVG("text", { class: "number", x: 80, y: 104 });
  const of = makeSVG("text", { class: "of", x: 80, y: 122 });
  of.textContent = `of ${short(limit.capacity)} tokens`;
  const svg = makeSVG("svg", { viewBox: "0 4 180 172", "aria-hidden": "true" },
    makeSVG("clipPath", { id }, makeSVG("path", { d: shape.wall + " Z" })),
    makeSVG("path", { class: "inside", d: shape.wall + " Z" }),
    makeSVG("g", { "clip-path": `url(#${id})` }, water),
    ticks, makeSVG("path", { class: "wall", d: shape.wall }), number, of);
  const el = make("div", { class: "level", "data-limit": limit.name, role: "meter", "aria-valuemin": 0, "aria-valuemax": limit.capacity, "aria-label": `Tokens, limit ${limit.name}` },
    svg, make("p", { class: "name", text: rule(limit) }));
  return { el, water, number, shown: limit.tokens };
}

function rule(l) {
  return `${short(l.rate)} every ${duration(l.interval_ms)}, ${l.mode}`;
}

function ownerOf(state) {
  const by = view.settings?.key;
  if (by === "user") return state.user || state.key;
  return by === "ip" ? `${state.user}’s address` : "everybody";
}

// shapeOf tells whether a bucket must be drawn anew.
const shapeOf = (state) => JSON.stringify([ownerOf(state), ...state.limits.map((l) => [l.name, l.capacity, rule(l)])]);

function buildBucket(b) {
  b.shape = shapeOf(b.state);
  b.levels = b.state.limits.map(drawLevel);
  const el = make("div", { class: "bucket", "data-key": b.state.key, role: "group", "aria-label": `Bucket of ${ownerOf(b.state)}` },
    make("p", { class: "owner", title: b.state.key }, make("span", { class: "key", "aria-hidden": "true" }), ownerOf(b.state)),
    make("div", { class: "levels" }, ...b.levels.map((l) => l.el)), make("p", { class: "by", text: "by this process alone" }));
  if (b.el) b.el.replaceWith(el); else $("buckets").append(el);
  b.el = el;
}

// hearState takes what the server says of the buckets; the frames between are computed.
function hearState(list, more, store) {
  setText($("store-text"), store.text);
  setAttr($("live"), "data-alone", String(store.alone));
  const keys = new Set();
  for (const state of list) {
    heardAt(state.at);
    keys.add(state.key);
    const b = view.buckets.get(state.key) ?? {};
    if (b.state && b.state.at > state.at) continue;
    b.state = state;
    remember(state);
    view.buckets.set(state.key, b);
    if (b.shape !== shapeOf(state)) buildBucket(b);
    b.el.classList.toggle("alone", state.alone);
  }
  for (const [key, b] of view.buckets) {
    if (keys.has(key)) continue;
    b.state.until = serverNow(); // where its curve ends
    b.el.remove();
    view.buckets.delete(key);
  }
  const levels = [...view.buckets.values()].reduce((n, b) => n + b.levels.length, 0);
  $("buckets").classList.toggle("two", levels === 2);
  $("buckets").classList.toggle("many", levels > 2);
  $("legend-second").hidden = ![...view.buckets.values()].some((b) => b.state.limits.length > 1);
  [...view.buckets.keys()].sort().forEach((key, i) => {
    const b = view.buckets.get(key);
    b.owner = i % owners;
    setAttr(b.el.querySelector(".key"), "data-owner", String(b.owner));
  });
  $("buckets").classList.toggle("several", view.buckets.size > 1);
  setAttr($("legend-tokens"), "data-ink", view.buckets.size > 1 ? "owners" : "tokens");
  setAttr($("legend-second").firstElementChild, "data-ink", view.buckets.size > 1 ? "owners" : "second");
  $("buckets-empty").hidden = view.buckets.size > 0;
  $("buckets-more").hidden = !more;
  setText($("buckets-more"), more ? `and ${plural(more, "bucket")} more: those used or denied last are shown` : "");
}

const owners = 5; // that have colours of their own

// remember keeps a state for the timeline, also of a bucket that goes.
function remember(state) {
  const past = view.past.get(state.key) ?? [];
  past.push(state);
  view.past.set(state.key, past);
  for (const [key, list] of view.past) {
    while (list.length > 0 && list[0].at < state.at - span - silence) list.shift();
    if (list.length === 0) view.past.delete(key);
  }
}

// showLevels moves the water to where it is now.
function showLevels(now, passed) {
  for (const b of view.buckets.values()) {
    b.state.limits.forEach((limit, i) => {
      const level = b.levels[i], tokens = asked(b.state) ? limit.tokens : tokensAt(limit, b.state.at, now);
      level.shown = calm.matches ? tokens : level.shown + (tokens - level.shown) * (1 - Math.exp(-passed / 70));
      const part = level.shown / limit.capacity, below = 8 * Math.max(0, 1 - part * 20); // no waves in an empty bucket
      level.water.setAttribute("transform", `translate(0 ${(levelY(part) + below).toFixed(2)})`);
      setAttr(level.el, "data-tokens", tokens.toFixed(2));
      const text = limit.capacity < 100 ? (Math.floor(tokens * 10) / 10).toFixed(limit.mode === "continuous" && tokens < limit.capacity ? 1 : 0) : short(Math.floor(tokens));
      setText(level.number, text);
      setAttr(level.el, "aria-valuenow", String(Math.floor(tokens)));
    });
  }
}

// showCountdown tells how long to wait after a 429. Its bucket may come to be known only after it.
function showCountdown(now) {
  const b = view.buckets.get(view.denied?.key), cost = view.settings?.cost ?? 1;
  let text = "";
  if (b && b.state.at > view.denied.at) {
    const wait = waitFor(b.state, now), who = view.settings.key === "user" ? ` for ${b.state.user}` : "";
    if (wait === Infinity) text = `never: a request costs ${plural(cost, "token")}, more than the bucket holds`;
    else if (wait > 0) text = `next ${cost > 1 ? plural(cost, "token") : "token"}${who} in ${wait < 60e3 ? `${(Math.ceil(wait / 100) / 10).toFixed(1)} s` : duration(Math.ceil(wait / 1000) * 1000)}`;
    else view.denied = null;
  }
  setText($("countdown"), text);
  sayCountdown(text);
}

// sayCountdown has a screen reader tell that it began, and no more often than anybody would want to hear.
const countdown = { since: -Infinity, text: "" };
function sayCountdown(text) {
  const began = text !== "" && countdown.text === "";
  countdown.text = text;
  if (!began || performance.now() - countdown.since < 10e3) return;
  countdown.since = performance.now();
  setText($("countdown-said"), `Denied: ${text}`);
}

// ---- requests: log, timeline, frameworks ----

const most = 200; // rows in the log
const log = { pending: [], drawn: 0, held: false, back: 0, flood: false };

// hearRequests takes the requests that are new, and counts by tenth of a second of those that were too many to be named.
function hearRequests(list, dropped) {
  for (const r of list) count(Math.floor(r.at / 100), { [kindOf(r)]: 1 });
  for (const [bin, sums] of Object.entries(dropped)) {
    count(Number(bin), sums);
    log.flood = true;
  }
  pulse(listRequests(list));
}

// listRequests has those that are new stand in the log.
function listRequests(list) {
  const fresh = list.filter((r) => r.id > view.lastID);
  for (const r of fresh) {
    view.lastID = r.id;
    if (r.status === 429) view.denied = { key: r.key, at: r.at + r.micros / 1000 };
  }
  log.pending = log.pending.concat(fresh).slice(-most);
  if (log.held) log.back += fresh.length;
  noteLog();
  return fresh;
}

function noteLog() {
  const parts = [];
  if (log.flood) parts.push(`the latest ${most}; in a flood most of the denied are only counted`);
  if (log.back > 0) parts.push(`${log.back} new held back`);
  setText($("log-note"), parts.join("; "));
  $("log-empty").hidden = $("log").rows.length > 0;
  setText($("log-empty"), log.back > 0 ? `The list is held: ${plural(log.back, "request")} came meanwhile.`
    : "No requests yet: send one, or run a scenario. curl works too.");
}

// holdLog keeps the list as it is, to be read, and lets it go.
function holdLog() {
  log.held = !log.held;
  log.back = 0;
  setAttr($("hold"), "aria-pressed", String(log.held));
  noteLog();
}

// count notes requests on the timeline.
function count(bin, sums) {
  const b = view.bins.get(bin) ?? { allowed: 0, denied: 0, error: 0 };
  for (const [kind, n] of Object.entries(sums)) b[kind] += n;
  view.bins.set(bin, b);
  view.lastBin = Math.max(view.lastBin, bin);
}

function headerOf(r, name) {
  return r.headers.find(([n]) => n.toLowerCase() === name)?.[1];
}

// gist is what a row says before its headers are opened.
function gist(r) {
  const retry = headerOf(r, "retry-after"), left = headerOf(r, "x-ratelimit-remaining") ?? headerOf(r, "ratelimit-remaining") ?? /r=(\d+)/.exec(headerOf(r, "ratelimit") ?? "")?.[1];
  const by = r.source === "fallback" ? ", by this process alone" : "";
  if (retry !== undefined) return `retry after ${retry} s${by}`;
  return (left !== undefined ? `${left} left` : "headers") + by;
}

function clockTime(ms) {
  const d = new Date(ms);
  return `${d.toLocaleTimeString("en-GB")}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

function row(r) {
  const kind = kindOf(r);
  const text = r.headers.map(([name, value]) => `${name}: ${value}`).join("\n");
  const details = make("details", {}, make("summary", { text: gist(r) }), make("pre", { text: text || "no headers" }));
  const cell = (attributes, ...children) => make("td", { role: "cell", ...attributes }, ...children);
  return make("tr", { role: "row", "data-id": r.id, "data-status": r.status, "data-framework": r.framework, "data-kind": kind },
    cell({ class: "at", text: clockTime(r.at) }),
    cell({}, make("span", { class: "status", text: `${r.status} ${kind}` })),
    cell({ text: r.framework === "http" ? "net/http" : r.framework }),
    cell({ class: "who", text: r.user, title: r.user }),
    cell({ class: "number-cell", text: micros(r.micros) }),
    cell({ class: "headers" }, details));
}

// showLog adds what came, newest first; in a flood not in every frame.
function showLog(time) {
  if (log.held || log.pending.length === 0 || (log.pending.length > 40 && time - log.drawn < 250)) return;
  log.drawn = time;
  const body = $("log");
  body.prepend(...log.pending.reverse().map(row));
  log.pending = [];
  while (body.rows.length > most) body.lastChild.remove();
  noteLog();
}

// pulse lights the frameworks that just answered, and the buckets that just refused.
function pulse(list) {
  if (calm.matches) return;
  const latest = new Map(list.map((r) => [r.framework, kindOf(r)]));
  for (const [framework, kind] of latest) {
    const door = document.querySelector(`.doors [data-door="${CSS.escape(framework)}"]`);
    door?.animate([{ background: `var(--${kind}-tint)`, borderColor: `var(--${kind})`, color: `var(--${kind})` }, {}], { duration: 600 });
  }
  for (const key of new Set(list.filter((r) => r.status === 429).map((r) => r.key))) {
    for (const level of view.buckets.get(key)?.levels ?? []) {
      level.el.querySelector(".wall").animate([{ stroke: "var(--denied)" }, {}], { duration: 500 });
    }
  }
}

// ---- the timeline ----

const span = 30e3; // ms shown
const silence = 1500; // ms without a state after which nothing is known: the server tells four a second
let inks = {};

// mixInks reads the theme's colours for the canvas, which knows no custom properties.
function mixInks() {
  inks = {};
  for (const el of document.querySelectorAll("[data-ink]")) inks[el.dataset.ink] = getComputedStyle(el).color;
  inks.text = getComputedStyle(document.body).color;
}

const marks = {
  allowed(g, x, y, r) { g.beginPath(); g.arc(x, y, r, 0, 7); g.fill(); },
  denied(g, x, y, r) { g.beginPath(); g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x + r, y - r); g.lineTo(x - r, y + r); g.stroke(); },
  error(g, x, y, r) { g.beginPath(); g.moveTo(x, y - r); g.lineTo(x + r, y + r); g.lineTo(x - r, y + r); g.fill(); },
};

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
  g.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return { g, w, h };
}

function showTimeline(now) {
  const { g, w, h } = sized($("timeline"));
  const left = 58, right = w - (view.buckets.size > 1 ? 48 : 8), top = 8, low = h - 88; // the plot of tokens
  const x = (at) => right - (now - at) / span * (right - left);
  drawGrid(g, { left, right, top, low, h, x, now });
  const ends = [];
  for (const [key, past] of view.past) {
    for (let i = 0; i < 2; i++) drawTokens(g, key, past, i, { left, right, top, low, now, ends });
  }
  drawOwners(g, ends, right);
  drawMarks(g, { left, right, low, x, now });
}

// drawOwners writes whose each curve is at its end, one below the other where they meet.
function drawOwners(g, ends, right) {
  g.textAlign = "left"; g.textBaseline = "middle";
  let above = -Infinity;
  for (const end of ends.sort((a, b) => a.y - b.y)) {
    above = Math.max(end.y, above + 12);
    g.fillStyle = end.ink;
    g.fillText(end.name, right + 6, above, 42);
  }
}

// drawBands marks the times in which this process decided alone.
function drawBands(g, { left, right, top, low, x, now }) {
  g.fillStyle = inks.band;
  let any = false;
  for (const past of view.past.values()) {
    past.forEach((state, i) => {
      const from = Math.max(left, x(state.at)), to = Math.min(right, x(Math.min(past[i + 1]?.at ?? now, state.at + silence)));
      if (!state.alone || to <= from) return;
      g.fillRect(from, top, to - from, low - top);
      any = true;
    });
  }
  $("legend-alone").hidden = !any;
}

function drawGrid(g, { left, right, top, low, h, x, now }) {
  drawBands(g, { left, right, top, low, x, now });
  g.strokeStyle = inks.line; g.fillStyle = inks.soft; g.lineWidth = 1; g.setLineDash([]);
  const caps = new Set([...view.buckets.values()].flatMap((b) => b.state.limits.map((l) => l.capacity)));
  const unit = caps.size === 1 ? (part) => short([...caps][0] * part) : (part) => `${part * 100}%`; // of each limit's capacity
  g.textAlign = "right"; g.textBaseline = "middle";
  for (const part of [0, 0.5, 1]) {
    const y = Math.round(low - part * (low - top)) + 0.5;
    line(g, left, y, right, y);
    g.fillText(unit(part), left - 8, y);
  }
  for (const [i, kind] of ["allowed", "denied", "error"].entries()) g.fillText(kind, left - 8, lane(low, i));
  g.textAlign = "center"; g.textBaseline = "alphabetic";
  const every = right - left > 420 ? 5000 : 10e3;
  for (let back = 0; back <= span; back += every) {
    const at = x(now - back);
    g.fillText(back === 0 ? "now" : `−${back / 1000} s`, Math.min(at, right - 12), h - 4);
  }
}

const lane = (low, i) => low + 22 + i * 19;

function line(g, x1, y1, x2, y2) { g.beginPath(); g.moveTo(x1, y1); g.lineTo(x2, y2); g.stroke(); }

// levelBetween is the level of the nth limit after a state. Up to the next one it follows from what refills, unless
// that one tells of less: then the requests between took tokens, and which of them did is not told.
function levelBetween(past, i, nth, at) {
  const state = past[i], next = past[i + 1], limit = state.limits[nth], then = next?.limits[nth];
  if (!next) return asked(state) ? limit.tokens : tokensAt(limit, state.at, at);
  if (!then || next.policy !== state.policy || then.capacity !== limit.capacity) return tokensAt(limit, state.at, at);
  if (then.tokens > tokensAt(limit, state.at, next.at) - 0.05) return tokensAt(limit, state.at, at);
  let from = state.at; // until the first request it refilled
  for (let bin = Math.floor(state.at / 100); bin * 100 < next.at; bin++) {
    if (!view.bins.has(bin)) continue;
    from = Math.max(from, bin * 100);
    break;
  }
  const high = tokensAt(limit, state.at, from);
  return at < from ? tokensAt(limit, state.at, at) : high + (then.tokens - high) * (at - from) / (next.at - from);
}

// drawTokens draws one limit's tokens, from the states reported and what follows from each.
function drawTokens(g, key, past, nth, { left, right, top, low, now, ends }) {
  const several = view.buckets.size > 1, owner = view.buckets.get(key)?.owner;
  g.strokeStyle = several ? inks[`owner${owner}`] ?? inks.soft : nth === 0 ? inks.tokens : inks.second;
  g.lineWidth = 2; g.lineJoin = "round"; g.setLineDash(nth === 0 ? [] : [6, 4]);
  g.beginPath();
  let i = 0, pen = false, first = 0, whole = true, y = 0; // whole: without a gap
  for (let px = left; px <= right; px += 1) {
    const at = now - (right - px) / (right - left) * span;
    while (i + 1 < past.length && past[i + 1].at <= at) i++;
    const age = at - (past[i]?.at ?? Infinity), limit = age >= 0 && age < silence && !(at > past[i].until) && past[i].limits[nth];
    if (!limit) { whole &&= !first; pen = false; continue; }
    y = low - levelBetween(past, i, nth, at) / limit.capacity * (low - top);
    if (pen) g.lineTo(px, y); else { g.moveTo(px, y); first ||= px; }
    pen = true;
  }
  g.stroke();
  g.setLineDash([]);
  if (nth === 0 && pen && several) ends.push({ name: ownerOf(past[i]), y, ink: g.strokeStyle });
  if (nth === 0 && whole && view.past.size === 1) { // the water below the curve
    g.lineTo(right, low); g.lineTo(first, low); g.closePath();
    g.globalAlpha = 0.1; g.fillStyle = inks.tokens; g.fill(); g.globalAlpha = 1;
  }
}

// drawMarks draws the requests. What lies close together becomes one mark that is larger.
function drawMarks(g, { left, right, low, x, now }) {
  const perBin = (right - left) / (span / 100), group = Math.max(1, Math.ceil(9 / perBin));
  const sums = new Map();
  for (const [bin, b] of view.bins) {
    if (bin * 100 < now - span - 1000) { view.bins.delete(bin); continue; }
    const at = Math.floor(bin / group), sum = sums.get(at) ?? { allowed: 0, denied: 0, error: 0 };
    for (const kind in sum) sum[kind] += b[kind];
    sums.set(at, sum);
  }
  g.lineWidth = 2; g.lineCap = "round";
  for (const [at, sum] of sums) {
    const px = x((at + 0.5) * group * 100);
    if (px < left) continue;
    Object.keys(marks).forEach((kind, i) => {
      if (sum[kind] === 0) return;
      g.fillStyle = g.strokeStyle = inks[kind];
      marks[kind](g, Math.min(px, right), lane(low, i), Math.min(6, 2.6 + Math.log2(sum[kind]) * 0.6));
    });
  }
  g.lineCap = "butt";
}

// summarize says the timeline in words, and to a screen reader at most every 10 seconds.
let saidAt = -Infinity;
function summarize() {
  const now = serverNow(), sum = { allowed: 0, denied: 0, error: 0 };
  for (const [bin, b] of view.bins) if (bin * 100 >= now - span) for (const kind in sum) sum[kind] += b[kind];
  const all = sum.allowed + sum.denied + sum.error;
  const errors = sum.error > 0 ? `, ${plural(sum.error, "error")}` : "";
  setText($("summary"), all === 0 ? "No requests in the last 30 seconds." : `In the last 30 seconds ${sum.allowed} allowed, ${sum.denied} denied${errors}.`);
  if (all === 0 || performance.now() - saidAt < 10e3 || $("summary").textContent === $("summary-said").textContent) return;
  saidAt = performance.now(); // the first request is told at once
  setText($("summary-said"), $("summary").textContent);
}

// ---- metrics ----

function hearMetrics(m) {
  view.since = m.since;
  const all = m.admitted + m.denied + m.errors;
  setText($("m-admitted"), String(m.admitted));
  setText($("m-denied"), String(m.denied));
  setText($("m-errors"), String(m.errors));
  setText($("m-ratio"), `${Math.round(m.ratio * 1000) / 10}%`);
  setText($("m-p50"), all ? micros(m.p50_micros) : "–");
  setText($("m-p99"), all ? micros(m.p99_micros) : "–");
}

// ---- sending ----

const sender = { turn: 0, flying: 0, steady: null, flood: false };

function nextFramework() {
  const chosen = $("framework").value;
  return chosen === "rotate" ? view.frameworks[sender.turn++ % view.frameworks.length] : chosen;
}

// notes are what is to be said of sending, each until its own reason ends.
const notes = { stage: "", send: "", reset: "" };
function note(about, text) {
  notes[about] = text;
  setText($("send-note"), Object.values(notes).filter(Boolean).join(" "));
}

// waits tells whether a scenario runs: then only its requests are served.
const waits = () => stage.running !== "";

// sendOne sends a real request; what came of it is told by the events.
async function sendOne() {
  if (waits()) return false;
  sender.flying++;
  try {
    const response = await fetch(`/${nextFramework()}/limited`, { headers: { "X-User": $("user").value }, cache: "no-store" });
    await response.arrayBuffer();
    note("send", "");
    return response.status !== 409; // a scenario began meanwhile
  } catch {
    stopSending();
    note("send", away);
    return false;
  } finally {
    sender.flying--;
  }
}

// readNumber is what a field of the page's own holds, or null.
function readNumber(input) {
  const n = Number(input.value), whole = input.step !== "any";
  return input.value !== "" && n >= Number(input.min) && n <= Number(input.max) && (!whole || Number.isInteger(n)) ? n : null;
}

// numberIn reads a field of the page's own, and says beside it when it is wrong.
function numberIn(input) {
  const n = readNumber(input);
  if (n !== null) input.removeAttribute("aria-invalid"); else input.setAttribute("aria-invalid", "true");
  setText($(`err-${input.id}`), n !== null ? "" : `Must be a${input.step !== "any" ? " whole" : ""} number from ${input.min} to ${input.max}.`);
  return n;
}

function sendBurst() {
  const n = numberIn($("burst-n"));
  if (!waits()) for (let i = 0; i < (n ?? 0); i++) sendOne();
}

// toggleSteady sends what is due every 20 ms, so that the rate holds where timers are coarse.
function toggleSteady() {
  if (sender.steady) return stopSteady();
  let rate = numberIn($("steady-rate"));
  if (rate === null || waits()) return;
  let due = 1, before = performance.now();
  sender.steady = setInterval(() => {
    const now = performance.now();
    rate = readNumber($("steady-rate")) ?? rate;
    due = waits() ? 0 : Math.min(due + (now - before) / 1000 * rate, 20);
    before = now;
    for (; due >= 1 && sender.flying < 60; due--) sendOne();
  }, 20);
  setAttr($("steady"), "aria-pressed", "true");
  $("steady").textContent = "Stop";
}

function stopSteady() {
  clearInterval(sender.steady);
  sender.steady = null;
  setAttr($("steady"), "aria-pressed", "false");
  setText($("steady"), "Send steadily");
}

// startFlood keeps four requests under way: browsers open six connections, and the events need one.
function startFlood() {
  if (sender.flood || waits()) return;
  sender.flood = true;
  $("flood").classList.add("held");
  setText($("flood"), "Flooding…");
  const keepSending = async () => { while (sender.flood && await sendOne()); stopFlood(); };
  for (let i = 0; i < 4; i++) keepSending();
}

function stopFlood() {
  sender.flood = false;
  $("flood").classList.remove("held");
  setText($("flood"), "Hold to flood");
}

function stopSending() { stopSteady(); stopFlood(); }

function wireSending() {
  $("send").addEventListener("click", sendOne);
  $("burst").addEventListener("click", sendBurst);
  $("steady").addEventListener("click", toggleSteady);
  const flood = $("flood"), holds = (e) => e.key === " " || e.key === "Enter";
  flood.addEventListener("pointerdown", (e) => { if (e.button === 0) { flood.setPointerCapture(e.pointerId); startFlood(); } });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) flood.addEventListener(end, stopFlood);
  flood.addEventListener("keydown", (e) => { if (holds(e)) { e.preventDefault(); startFlood(); } });
  flood.addEventListener("keyup", (e) => { if (holds(e)) stopFlood(); });
  flood.addEventListener("contextmenu", (e) => e.preventDefault());
  $("reset").addEventListener("click", async () => { if (!waits()) note("reset", await post("/api/reset")); });
  // A field that is wrong says so while it is corrected; a rate in use also when it becomes wrong.
  for (const id of ["burst-n", "steady-rate"]) {
    $(id).addEventListener("input", () => { if ($(id).hasAttribute("aria-invalid") || id === "steady-rate" && sender.steady) numberIn($(id)); });
  }
}

// post answers what went wrong, or nothing.
async function post(path, method = "POST") {
  try {
    const response = await fetch(path, { method });
    if (response.ok) return "";
    return (await response.json()).error ?? `The server answered ${response.status}.`;
  } catch {
    return away;
  }
}

// ---- limits ----

const form = { dirty: false, base: "" }; // base is what was in force before something was typed
const fieldNames = ["capacity", "rate", "interval_ms", "mode", "cost", "second.on", "second.capacity", "second.rate", "second.interval_ms", "second.mode", "headers", "key"];
const words = new Set(["mode", "second.mode", "headers", "key"]);
const field = (name) => $("settings").elements.namedItem(name);
const messageOf = (name) => $(`err-${name.replace(".", "-")}`);

function fillForm(s) {
  for (const name of fieldNames) {
    const value = name.startsWith("second.") ? s.second[name.slice(7)] : s[name];
    if (name === "second.on") field(name).checked = value; else field(name).value = String(value);
  }
  form.dirty = false;
  form.base = JSON.stringify(s);
  showElsewhere(s);
  showSecond();
}

// showElsewhere tells of limits in force that are no longer those someone began to change.
function showElsewhere(s) {
  const on = form.dirty && form.base !== JSON.stringify(s);
  if (!on && $("elsewhere").contains(document.activeElement)) $("apply").focus();
  $("elsewhere").hidden = !on;
}

function showSecond() { $("second").hidden = !field("second.on").checked; }

// readForm takes what was typed; what is no number goes as it is, for the server to answer.
function readForm() {
  const s = { second: { on: field("second.on").checked } };
  for (const name of fieldNames) {
    if (name === "second.on") continue;
    const typed = field(name).value.trim();
    const value = words.has(name) || !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) || !Number.isFinite(Number(typed)) ? typed : Number(typed);
    if (name.startsWith("second.")) s.second[name.slice(7)] = value; else s[name] = value;
  }
  return s;
}

function showErrors(errors) {
  const rest = [];
  for (const name of fieldNames) {
    if (name === "second.on") continue;
    setText(messageOf(name), errors[name] ?? "");
    if (errors[name]) setAttr(field(name), "aria-invalid", "true"); else field(name).removeAttribute("aria-invalid");
  }
  for (const [name, text] of Object.entries(errors)) if (!messageOf(name) || name === "") rest.push(name ? `${name}: ${text}` : text);
  setText($("err-form"), rest.join("; "));
  $("settings").querySelector("[aria-invalid=true]")?.focus();
}

async function applySettings(event) {
  event.preventDefault();
  setText($("settings-note"), "");
  if (waits()) return showErrors({ "": busy });
  let response, answer;
  try {
    response = await fetch("/api/settings", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(readForm()) });
    answer = await response.json();
  } catch {
    return showErrors({ "": `${away} Nothing has changed.` });
  }
  if (response.status === 409) return showErrors({ "": busy });
  if (!response.ok) return showErrors(answer.errors ?? { "": answer.error ?? `The server answered ${response.status}.` });
  showErrors({});
  fillForm(answer);
  if (!waits()) hearSettings(answer);
  setText($("settings-note"), "In force for all frameworks.");
  setTimeout(() => setText($("settings-note"), ""), 4000);
}

const busy = "A scenario runs with limits of its own: apply yours when it is over.";

// hearSettings shows what is in force; what someone is typing stays, and a scenario's limits are not for the form.
function hearSettings(s) {
  view.settings = s;
  if (!waits()) takeSettings(s);
  const each = { client: "One bucket for everybody", user: "A bucket for each user", ip: "A bucket for each IP address" }[s.key];
  $("in-force").textContent = `${each}; a request costs ${plural(s.cost, "token")}.`;
}

// takeSettings has the form show settings of everybody's.
function takeSettings(s) {
  if (form.dirty) showElsewhere(s); else if (form.base !== JSON.stringify(s)) fillForm(s);
}

function wireSettings() {
  const el = $("settings");
  el.addEventListener("submit", applySettings);
  el.addEventListener("input", () => { form.dirty = true; setText($("settings-note"), ""); showSecond(); });
  $("load").addEventListener("click", () => { showErrors({}); fillForm(view.settings); field("capacity").focus(); });
}

// ---- scenarios ----

const stage = { cards: new Map(), running: "" };

function buildScenarios(list) {
  stage.cards.clear();
  $("scenarios").replaceChildren(...list.map((s) => {
    const run = make("button", { type: "button", class: "run", text: "Run", "aria-label": `Run: ${s.title}` });
    const stop = make("button", { type: "button", class: "plain stop", text: "Stop", "aria-label": `Stop: ${s.title}`, hidden: "" });
    const card = {
      run, stop, available: s.available, progress: make("p", { class: "progress", role: "status" }), verdict: make("p", { class: "verdict", "data-ok": "", role: "status" }),
    };
    run.addEventListener("click", async () => { if (!waits()) setText($("scenario-note"), await post(`/api/scenarios/${encodeURIComponent(s.id)}`)); });
    stop.addEventListener("click", async () => { setText($("scenario-note"), await post("/api/scenarios", "DELETE")); });
    card.el = make("li", { class: "scenario", "data-scenario": s.id },
      make("h3", { text: s.title }), make("p", { class: "expect", text: s.available ? s.expect : `${s.expect} (${s.reason}.)` }),
      card.progress, card.verdict, make("div", { class: "buttons" }, run, stop));
    stage.cards.set(s.id, card);
    return card.el;
  }));
}

function showStage() {
  for (const [id, card] of stage.cards) {
    const on = id === stage.running;
    card.el.classList.toggle("running", on);
    card.run.disabled = !card.available;
    setAttr(card.run, "aria-disabled", String(waits() || !card.available));
    if (!on && document.activeElement === card.stop) card.run.focus();
    card.stop.hidden = !on;
    if (!on) setText(card.progress, "");
  }
  // They stay where they are for the keyboard, and do nothing.
  for (const id of ["send", "burst", "flood", "reset", "apply"]) setAttr($(id), "aria-disabled", String(waits()));
  setAttr($("steady"), "aria-disabled", String(waits() && !sender.steady));
  note("stage", waits() ? "A scenario is running and only its requests are served: sending waits until it is over." : "");
}

function showVerdict(id, verdict) {
  const card = stage.cards.get(id);
  if (!card) return;
  setText(card.verdict, verdict?.text ?? "");
  setAttr(card.verdict, "data-ok", { expected: "true", unexpected: "false", none: "none" }[verdict?.outcome] ?? "");
}

function hearScenario(s) {
  stage.running = s.running ? s.id : "";
  showVerdict(s.id, s.running ? null : s.verdict);
  if (s.running) stopFlood(); else afterScenario();
  showStage();
  if (s.running) setText(stage.cards.get(s.id).progress, `▸ ${s.progress ?? "running"} …`);
}

// afterScenario takes back what was said of one that runs.
function afterScenario() {
  setText($("scenario-note"), "");
  if ($("err-form").textContent === busy) setText($("err-form"), "");
  takeSettings(view.settings);
}

// ---- what the server says ----

const hear = {
  hello(h) {
    clock.offset = h.now - performance.now();
    if (h.metrics.since !== view.since) clearRun();
    view.frameworks = h.frameworks;
    if ($("doors").children.length === 0) {
      $("doors").replaceChildren(...h.frameworks.map((f) => make("li", { "data-door": f, text: f === "http" ? "net/http" : f })));
    }
    stage.running = h.running;
    hearSettings(h.settings);
    takeSettings(h.own);
    hearState(h.state, h.more, h.store);
    view.bins = new Map(Object.entries(h.bins).map(([bin, sums]) => [Number(bin), sums]));
    view.lastBin = Math.max(0, ...view.bins.keys());
    listRequests(h.log);
    hearMetrics(h.metrics);
    if (stage.cards.size === 0) buildScenarios(h.scenarios);
    for (const s of h.scenarios) showVerdict(s.id, h.verdicts?.[s.id]);
    if (!waits()) afterScenario();
    showStage();
  },
  requests(r) { hearRequests(r.list, r.dropped); },
  state(s) { hearState(s.list, s.more, s.store); },
  settings: hearSettings,
  metrics: hearMetrics,
  scenario: hearScenario,
  cleared() { clearRun(); },
};

function clearRun() {
  view.lastID = 0;
  view.denied = null;
  view.bins.clear();
  view.lastBin = 0;
  view.past.clear();
  log.pending = [];
  log.back = 0;
  log.flood = false;
  $("log").replaceChildren();
  noteLog();
  hearMetrics({ admitted: 0, denied: 0, errors: 0, ratio: 0, p50_micros: 0, p99_micros: 0, since: 0 });
}

// ---- the stream of events ----

// A browser grants a server six connections for all tabs together, and a stream holds one for good. So one tab, which has
// the lock, opens the stream and hands what it hears to the others. Where browsers know neither locks nor channels, as
// on pages of another machine without TLS, each tab has a stream of its own.
const stream = {
  source: null, // this tab's own, if it has one
  channel: null, // to the other tabs
  leave: null, // gives the lock back
  leads: false,
  early: null, // what came before the greeting
  seq: 0, // of the latest event
  heard: 0,
  retry: null,
};

// begin joins the stream, by a connection or through another tab.
function begin() {
  if (!navigator.locks || !window.BroadcastChannel) return connect();
  stream.channel = new BroadcastChannel("events");
  stream.channel.addEventListener("message", (e) => hearShared(e.data));
  stream.leave = new AbortController();
  const { signal } = stream.leave;
  const lead = () => signal.aborted ? undefined : new Promise((done) => {
    signal.addEventListener("abort", done);
    stream.leads = true;
    connect();
  });
  navigator.locks.request("events", { ifAvailable: true }, (lock) => {
    if (lock) return lead();
    navigator.locks.request("events", { signal }, lead).catch(() => {}); // it left
    follow();
  });
}

// end leaves the stream to the other tabs.
function end() {
  clearTimeout(stream.retry);
  stream.source?.close();
  stream.channel?.close();
  stream.leave?.abort();
  Object.assign(stream, { source: null, channel: null, leave: null, leads: false, early: null });
}

// joined tells whether this page hears anything.
const joined = () => stream.source !== null || stream.channel !== null;

// follow is greeted by the server, and from then on hears what another tab hands on.
async function follow() {
  clearTimeout(stream.retry);
  stream.heard = performance.now();
  stream.early = [];
  let text;
  try {
    const response = await fetch("/api/hello", { cache: "no-store" });
    text = await response.text();
    if (!response.ok) throw new Error(text);
  } catch {
    if (stream.source || !stream.channel || !stream.early) return; // it has its own by now, or left, or was greeted
    setLive(false);
    stream.retry = setTimeout(follow, 1000);
    return;
  }
  const early = stream.early;
  if (stream.source || !early) return;
  stream.early = null;
  take("hello", text, 0);
  for (const e of early) take(e.name, e.text, e.seq);
}

// hearShared takes what the leading tab hands on.
function hearShared(e) {
  if (stream.leads || stream.source && e.name === "lost") return;
  if (stream.source) { // it helped itself while no tab led
    stream.source.close();
    stream.source = null;
    clearTimeout(stream.retry);
    follow();
  }
  stream.heard = performance.now();
  if (e.name === "lost") return lostSight();
  if (e.name === "hello") { // the stream began anew, perhaps that of another process
    clearTimeout(stream.retry);
    stream.early = null;
  }
  if (stream.early) stream.early.push(e); else take(e.name, e.text, e.seq);
}

// take has the page hear an event, unless its greeting knew of it.
function take(name, text, seq) {
  const data = JSON.parse(text);
  if (name === "hello") stream.seq = data.seq;
  else if (seq <= stream.seq) return;
  else stream.seq = seq;
  setLive(true);
  hear[name](data);
}

function connect() {
  clearTimeout(stream.retry);
  stream.source?.close();
  stream.early = null;
  const source = stream.source = new EventSource("/events");
  stream.heard = performance.now();
  for (const name of Object.keys(hear)) {
    source.addEventListener(name, (e) => {
      if (source !== stream.source) return;
      stream.heard = performance.now();
      const event = { name, text: e.data, seq: Number(e.lastEventId) };
      if (stream.leads) stream.channel.postMessage(event);
      take(event.name, event.text, event.seq);
    });
  }
  source.addEventListener("error", () => { if (source === stream.source) lost(); });
}

// lost says so, and tries again in a second.
function lost() {
  stream.source?.close();
  if (stream.leads) stream.channel.postMessage({ name: "lost" });
  lostSight();
  clearTimeout(stream.retry);
  stream.retry = setTimeout(connect, 1000);
}

function lostSight() {
  setLive(false);
  stopSending();
}

// away is what is said where the server did not answer.
const away = "The server can’t be reached.";

// forgetLoss takes that back when it answers again.
function forgetLoss() {
  for (const about of ["send", "reset"]) if (notes[about] === away) note(about, "");
  for (const id of ["scenario-note", "err-form"]) if ($(id).textContent.startsWith(away)) setText($(id), "");
}

function setLive(on) {
  if (on && $("live").dataset.live === "false") forgetLoss();
  setAttr($("live"), "data-live", String(on));
  $("banner").hidden = on;
  document.body.classList.toggle("lost", !on);
  setText($("banner"), on ? "" : "The connection to the demo is lost: what you see is not live. Trying again …");
}

// watch notices a connection that is silent: the server says something every 250 ms. Where it is another tab's, this one
// goes on by itself.
function watch() {
  if (document.hidden || performance.now() - stream.heard < 5000) return;
  if (stream.source?.readyState === EventSource.OPEN) lost();
  else if (!stream.source && stream.channel && !stream.early) connect();
}

// onVisibility: a page nobody sees sends nothing, and after a while leaves the stream to those that are seen.
let asleep = null;
function onVisibility() {
  clearTimeout(asleep);
  if (document.hidden) {
    stopSending();
    asleep = setTimeout(end, 30e3);
  } else if (!joined()) begin();
  else stream.heard = performance.now();
}

// ---- theme ----

const themes = ["auto", "light", "dark"];

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("theme", name); } catch { /* a page without storage forgets it */ }
  mixInks();
}

function wireTheme() {
  let name = "auto";
  try { name = localStorage.getItem("theme") ?? name; } catch { /* as above */ }
  setTheme(themes.includes(name) ? name : "auto");
  $("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "auto";
    setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", mixInks);
}

// ---- frames ----

let lastFrame = 0;
function frame(time) {
  const now = serverNow();
  showLevels(now, time - lastFrame);
  showCountdown(now);
  showTimeline(now);
  showLog(time);
  lastFrame = time;
  requestAnimationFrame(frame);
}

wireTheme();
wireSending();
wireSettings();
$("hold").addEventListener("click", holdLog);
document.addEventListener("visibilitychange", onVisibility);
window.addEventListener("pagehide", end);
window.addEventListener("pageshow", () => { if (!joined()) begin(); });
setInterval(watch, 1000);
setInterval(summarize, 250);
begin();
requestAnimationFrame(frame);
