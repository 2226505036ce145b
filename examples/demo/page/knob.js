// Numbers of the first picture that are turned: by dragging, with the arrow keys,
// or by typing. Each is a slider for a screen reader.

import { ask } from "./ask.js";
import { $, capital, duration, inWords, plural, say, set } from "./dom.js";
import { chapterOf, wake } from "./time.js";

const seconds = [500, 1000, 2000, 5000, 10e3, 30e3, 60e3, 3600e3];
const rates = [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100];
const upTo = (n) => Array.from({ length: n }, (_, i) => i + 1);

const knobs = {
  capacity: {
    name: "Capacity", start: 10, list: [...upTo(30), 40, 50, 60, 80, 100, 200, 500, 1000],
    text: (v) => plural(v, "token"), typed: (v) => Math.round(Math.min(1e6, Math.max(1, v))),
  },
  cost: {
    name: "Cost of a request", start: 1, list: upTo(10),
    text: (v) => plural(v, "token"), typed: (v) => Math.round(Math.min(1e6, v)),
  },
  rate: {
    name: "Tokens that come back", start: 1, list: rates,
    text: (v) => plural(v, "token"), typed: (v) => Math.min(1e6, Math.max(0.001, v)),
  },
  interval_ms: {
    name: "Time in which they come back", start: 1000, list: seconds,
    text: (v) => duration(v), typed: (v) => Math.min(3600, Math.max(0.01, v)) * 1000,
  },
};

const turned = { fields: {}, sent: {}, timer: 0 };

// change sends a setting. While something is dragged, or the demo has not
// answered, only the latest value counts: two requests under way could arrive in
// another order. What the demo refuses is turned back, and it says why.
function change(field, value) {
  turned.fields[field] = value;
  showSentence();
  turned.timer ||= setTimeout(sendTurned, 120);
}

async function sendTurned() {
  turned.sent = turned.fields;
  turned.fields = {};
  const got = await ask("POST", "api/settings/drain", turned.sent);
  turned.sent = {};
  turned.timer = Object.keys(turned.fields).length > 0 ? setTimeout(sendTurned, 0) : 0;
  if (got?.ok) chapterOf("drain").settings = got.data;
  else if (got) {
    const mistake = ([name, text]) => `${knobs[name]?.name ?? name} ${text}.`;
    say($("v-drain"), Object.entries(got.data).map(mistake).join(" "));
  }
  showSentence();
}

export function valueOf(field) {
  return turned.fields[field] ?? turned.sent[field] ?? chapterOf("drain").settings?.[field] ?? knobs[field].start;
}

// step is the value so many places further in the list.
export function step(field, from, by) {
  const { list } = knobs[field];
  let i = list.findIndex((v) => v >= from);
  if (i < 0) i = list.length - 1;
  if (by < 0 && list[i] > from) by++;
  return list[Math.min(list.length - 1, Math.max(0, i + by))];
}

const keys = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5, Home: -99, End: 99 };

// knob has an element turn a field. moved tells from how far the pointer came
// what the value is.
export function knob(el, field, name = knobs[field].name, moved = dragged) {
  const about = { role: "slider", tabindex: 0, "aria-label": name, "aria-valuemin": 0, "data-field": field };
  for (const [attribute, value] of Object.entries(about)) set(el, attribute, value);
  el.classList.add("knob");
  let start = null;
  el.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) return;
    el.setPointerCapture(e.pointerId);
    start = { x: e.clientX, y: e.clientY, value: valueOf(field) };
    el.focus();
    e.preventDefault();
  });
  el.addEventListener("pointermove", (e) => {
    const value = start && moved(start.value, e.clientX - start.x, e.clientY - start.y, field);
    if (start && value !== valueOf(field)) change(field, value);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    el.addEventListener(end, () => { start = null; });
  }
  let typed = "";
  let forget = 0;
  el.addEventListener("keydown", (e) => {
    if (keys[e.key]) change(field, step(field, valueOf(field), keys[e.key]));
    else if (/^[0-9.]$/.test(e.key) && !e.ctrlKey && !e.metaKey && !e.altKey) {
      typed += e.key;
      clearTimeout(forget);
      forget = setTimeout(() => { typed = ""; }, 1500);
      if (Number(typed) > 0) change(field, knobs[field].typed(Number(typed)));
    } else return;
    e.preventDefault();
  });
}

const dragged = (start, dx, dy, field) => step(field, start, Math.round((dx - dy) / 12));

// buildSentence has the numbers of the sentence turn the settings.
export function buildSentence() {
  for (const field of Object.keys(knobs)) knob($(`k-${field}`), field);
}

// showSentence shows the settings on all that turn them.
export function showSentence() {
  const [capacity, cost, rate, interval] = Object.keys(knobs).map(valueOf);
  say($("k-capacity"), capital(inWords(capacity)));
  say($("k-cost"), inWords(cost));
  say($("k-rate"), capital(inWords(rate)));
  say($("comes"), rate === 1 ? "comes" : "come");
  say($("k-interval_ms"), duration(interval));
  for (const el of document.querySelectorAll("[data-field]")) {
    const { list, text } = knobs[el.dataset.field];
    const value = valueOf(el.dataset.field);
    set(el, "aria-valuenow", value);
    set(el, "aria-valuemax", Math.max(value, list.at(-1)));
    set(el, "aria-valuetext", text(value));
  }
  wake();
}
