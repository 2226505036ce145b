// Elements, numbers as text, and requests to the demo.

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const el = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) el.setAttribute(name, value);
  el.append(...children.filter((c) => c !== null));
  return el;
}

const draw = (tag, attributes, ...children) => make(`svg:${tag}`, attributes, ...children);
const label = (x, y, text, kind = "") => draw("text", { x, y, class: kind }, text);

// set and say write only what has changed: browsers lay out again otherwise.
function set(el, name, value) {
  if (value === null) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value);
}

function say(el, text) { if (el.textContent !== text) el.textContent = text; }

const small = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const inWords = (n) => small[n] ?? short(n);
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const plural = (n, word) => `${short(n)} ${word}${n === 1 ? "" : "s"}`;

// short writes a number so that it fits: 7, 12.5, 1,200, 1.2M.
function short(n) {
  const compact = Math.abs(n) >= 1e5;
  return new Intl.NumberFormat("en", { notation: compact ? "compact" : "standard", maximumFractionDigits: compact ? 1 : 2 }).format(n);
}

const month = 2629746e3; // ms: the mean month, which stands for those of the calendar
const units = [[month, "month"], [86400e3, "day"], [3600e3, "hour"], [60e3, "minute"], [1e3, "second"], [1, "millisecond"]];

// duration writes ms as 5 seconds, and one second as "second".
function duration(ms) {
  const [size, word] = units.find(([size]) => ms >= size) ?? units.at(-1), n = ms / size;
  return n === 1 ? word : `${short(n)} ${word}s`;
}

// wait writes the ms of a wait: 0.9 s, 45 s, 3.5 min.
function wait(ms) {
  if (ms < 0) return "never";
  if (ms < 60e3) return `${(Math.ceil(ms / 100) / 10).toFixed(ms < 10e3 ? 1 : 0)} s`;
  return ms < 7200e3 ? `${short(Math.ceil(ms / 6e3) / 10)} min` : `${short(Math.ceil(ms / 360e3) / 10)} h`;
}

const again = (ms) => (ms < 0 ? "never: it costs more" : `retry in ${wait(ms)}`);

const clockTime = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const nameOf = (framework) => (framework === "http" ? "net/http" : framework);

// ask sends something to the demo, and returns its answer; null if there is none.
async function ask(method, path, body) {
  try {
    const { status, text } = await transport.ask(method, path, body && JSON.stringify(body));
    return { ok: status < 300, status, data: text.startsWith("{") ? JSON.parse(text) : {} };
  } catch {
    return null;
  }
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
  } catch { // without TLS, or without leave: the visitor copies it
    getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
    say(button, "Press Ctrl+C");
  }
  setTimeout(() => say(button, before), 2000);
}
