// Elements, and numbers as text.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  return fill(el, attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return fill(el, attributes, children);
}

function fill(el, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

export const label = (x, y, text, kind = "") => draw("text", { x, y, class: kind }, text);

// set and say write only what has changed: browsers lay out again otherwise.
export function set(el, name, value) {
  if (value === null) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value);
}

export function say(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

export const between = (a, b, p) => a + (b - a) * p;
export const bound = (p) => Math.min(1, Math.max(0, p));

const small = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
export const inWords = (n) => small[n] ?? short(n);
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
export const plural = (n, word) => `${short(n)} ${word}${n === 1 ? "" : "s"}`;

// short writes a number so that it fits: 7, 12.5, 1,200, 1.2M.
export function short(n) {
  const compact = Math.abs(n) >= 1e5;
  const notation = compact ? "compact" : "standard";
  return new Intl.NumberFormat("en", { notation, maximumFractionDigits: compact ? 1 : 2 }).format(n);
}

const month = 2629746e3; // ms: the mean month, which stands for those of the calendar
export const units = [
  [month, "month"], [86400e3, "day"], [3600e3, "hour"], [60e3, "minute"], [1e3, "second"], [1, "millisecond"],
];

// duration writes ms as 5 seconds, and one second as "second".
export function duration(ms) {
  const [size, word] = units.find(([size]) => ms >= size) ?? units.at(-1);
  const n = ms / size;
  return n === 1 ? word : `${short(n)} ${word}s`;
}

// wait writes the ms of a wait: 0.9 s, 45 s, 3.5 min.
export function wait(ms) {
  if (ms < 0) return "never";
  if (ms < 60e3) return `${(Math.ceil(ms / 100) / 10).toFixed(ms < 10e3 ? 1 : 0)} s`;
  return ms < 7200e3 ? `${short(Math.ceil(ms / 6e3) / 10)} min` : `${short(Math.ceil(ms / 360e3) / 10)} h`;
}

export const again = (ms) => (ms < 0 ? "never: it costs more" : `retry in ${wait(ms)}`);

export const clockTime = (ms) => new Date(ms).toLocaleTimeString("en-GB");
