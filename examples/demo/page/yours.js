// Chapter 4: every setting, as numbers to type. What is changed holds at once.

import { ask } from "./ask.js";
import { bucketIn, pills, showBucket } from "./bucket.js";
import { showCode } from "./code.js";
import { $, capital, draw, duration, label, make, say, set, short, units } from "./dom.js";
import { showSentence } from "./knob.js";
import { bucketId, chapterOf, frames, latest, restOf, wake } from "./time.js";

const modes = { continuous: "continuous", stepped: "stepped", aligned: "aligned" };
const keys = { client: "everybody", user: "each user", ip: "each IP" };
const headers = { default: "default", legacy: "legacy", draft8: "Draft8", draft6: "draft 6", none: "none" };

// A field's name, its label, and what it takes: "number", "time", "word", "check",
// or options.
const fieldsets = [
  ["First limit", [
    ["capacity", "Capacity, tokens", "number"],
    ["rate", "Refill, tokens", "number"],
    ["interval_ms", "Every", "time"],
    ["mode", "Refill mode", modes],
    ["cost", "Cost of a request", "number"],
  ]],
  ["Second limit", [
    ["second.on", "A second limit", "check"],
    ["second.capacity", "Second capacity", "number"],
    ["second.rate", "Second refill", "number"],
    ["second.interval_ms", "Second every", "time"],
    ["second.mode", "Second mode", modes],
    ["second.unit", "Unit it counts", "word"],
    ["second.cost", "Units charged", "number"],
    ["second.used", "Units used at last", "number"],
  ]],
  ["Who and how", [
    ["key", "A bucket for", keys],
    ["plan", "Bob’s plan, times", "number"],
    ["slots", "In flight, at most", "number"],
    ["takes_ms", "Each takes, ms", "number"],
    ["headers", "Header style", headers],
  ]],
];
const kinds = Object.fromEntries(fieldsets.flatMap(([, list]) => list.map(([name, , kind]) => [name, kind])));

const yours = { presets: [], typed: "", looks: "", parts: [], pills: null };

export function buildYours() {
  const form = $("settings");
  for (const [title, list] of fieldsets) {
    form.append(make("fieldset", {}, make("legend", {}, title), ...list.map(([name, text]) => field(name, text))));
  }
  let later = 0;
  form.addEventListener("submit", (e) => e.preventDefault());
  form.addEventListener("input", (e) => {
    clearTimeout(later);
    yours.typed = e.target.name;
    later = setTimeout(() => changeSetting(e.target), 350);
  });
  form.addEventListener("focusout", () => showSettings((el) => el.getAttribute("aria-invalid")));
  frames.push(drawYours);
}

function field(name, text) {
  const id = `s-${name.replace(".", "-")}`;
  const message = make("p", { class: "message", id: `e-${id}` });
  const input = inputOf(kinds[name], id);
  set(input, "name", name);
  set(input, "aria-describedby", message.id);
  const kind = name.startsWith("second.") && name !== "second.on" ? "second" : "";
  return make("div", { class: kind }, make("label", { for: id }, text), input, message);
}

function inputOf(kind, id) {
  if (typeof kind === "object") {
    return make("select", { id }, ...Object.entries(kind).map(([value, shown]) => make("option", { value }, shown)));
  }
  if (kind === "check") return make("input", { id, type: "checkbox" });
  const placeholder = kind === "word" ? "requests" : undefined;
  return make("input", { id, inputmode: kind === "number" ? "decimal" : "text", placeholder, spellcheck: "false" });
}

async function changeSetting(el) {
  const { name } = el;
  const value = valueIn(el);
  const body = name.startsWith("second.") ? { second: { [name.slice(7)]: value } } : { [name]: value };
  yours.typed = "";
  const got = await ask("POST", "api/settings/yours", body);
  for (const p of $("settings").querySelectorAll(".message")) say(p, "");
  for (const e of $("settings").querySelectorAll("[aria-invalid]")) e.removeAttribute("aria-invalid");
  if (got?.ok) return;
  const mistakes = got?.data ?? { [name]: "The demo does not answer: nothing has changed." };
  for (const [wrong, text] of Object.entries(mistakes)) {
    const input = $("settings").elements.namedItem(wrong) ?? el;
    set(input, "aria-invalid", "true");
    say($(`e-${input.id}`), text);
  }
}

// valueIn reads a field. What can't be read is returned as it is, for the demo to
// answer.
function valueIn(el) {
  const kind = kinds[el.name];
  if (kind === "check") return el.checked;
  if (kind === "time") return intervalOf(el.value);
  const number = kind === "number" && el.value.trim() !== "" ? Number(el.value) : NaN;
  return Number.isNaN(number) ? el.value : number;
}

// intervalOf reads 5 s, 15 minutes or month, in ms.
function intervalOf(text) {
  const [, n, word] = text.trim().toLowerCase().match(/^([\d.]*)\s*([a-z]*)$/) ?? [];
  const short = { ms: 1, m: 60e3 }[word];
  const begins = (word || "second").replace(/s$/, "") || "s";
  const size = short ?? units.find(([, name]) => name.startsWith(begins))?.[0];
  if (!size || n + word === "" || Number.isNaN(Number(n))) return text;
  return (n === "" ? 1 : Number(n)) * size;
}

// hearSettings takes the settings that are in force.
export function hearSettings(id, settings) {
  const chapter = chapterOf(id);
  if (chapter.settings && chapter.settings.key !== settings.key) chapter.buckets.clear();
  chapter.settings = settings;
  showCode(id);
  if (id === "drain") return showSentence();
  showSettings(() => false);
  $("settings").classList.toggle("two", settings.second.on);
  const mine = yours.presets.find((p) => p.settings === JSON.stringify(settings));
  if (mine && $("asks").textContent !== mine.asks) choose(mine);
  for (const p of yours.presets) set(p.button, "aria-pressed", String(p === mine));
  wake();
}

// showSettings puts what is in force into the fields, but those that someone types
// in, or that are kept. A field that is right has no message.
function showSettings(keep) {
  const { settings } = chapterOf("yours");
  for (const el of $("settings").elements) {
    if (!settings || !el.name || el === document.activeElement || el.name === yours.typed || keep(el)) continue;
    el.removeAttribute("aria-invalid");
    say($(`e-${el.id}`), "");
    const value = el.name.startsWith("second.") ? settings.second[el.name.slice(7)] : settings[el.name];
    if (kinds[el.name] === "check") el.checked = value;
    else el.value = kinds[el.name] === "time" ? duration(value).replace(/^(?=\D)/, "1 ") : value;
  }
}

export function buildPresets(list) {
  yours.presets = list.map((p) => {
    const button = make("button", { type: "button", class: "quiet", "aria-pressed": "false" }, p.title);
    button.addEventListener("click", async () => {
      choose(p);
      say($("v-yours"), "");
      await ask("POST", "api/settings/yours", p.settings);
      ask("POST", "api/run/yours/fill", {});
    });
    return { ...p, settings: JSON.stringify(p.settings), button };
  });
  $("presets").replaceChildren(...yours.presets.map((p) => make("li", {}, p.button)));
}

// choose has the chapter ask a preset's question, and its button answer it.
function choose(p) {
  const button = $("play-yours");
  say($("preset-says"), p.text);
  say($("asks"), p.asks);
  button.dataset.script = p.script;
  button.dataset.n = p.n;
  if (button.textContent === button.dataset.name) say(button, p.does);
  button.dataset.name = p.does;
}

export function sizeYours() {
  yours.looks = ""; // so that all is drawn anew
}

const maxShown = 6;

// drawYours draws a bucket for each user and limit.
function drawYours(t) {
  const chapter = chapterOf("yours");
  const shown = [...chapter.buckets.values()].map((moments) => latest(moments, t)).filter(Boolean).slice(0, maxShown);
  const looks = JSON.stringify(shown.map((m) => [m.key, m.limits.map((l) => [l.name, l.capacity, l.unit])]));
  if (looks !== yours.looks) layOut(shown);
  yours.looks = looks;
  for (const p of yours.parts) {
    const l = showBucket(p.bucket, chapter.buckets.get(p.id) ?? [], p.nth, t);
    if (!l) continue;
    const slots = l.mode === "concurrent";
    say(p.number, short(l.tokens));
    say(p.of, slots ? `of ${l.capacity} slots free` : `of ${short(l.capacity)} ${l.unit || "requests"} left`);
    say(p.rate, slots ? "" : `${short(l.rate)} each ${duration(l.interval_ms)}`);
  }
  if (yours.pills) pills(yours.pills, chapter.decisions, t, wayOf);
  return restOf(chapter, t);
}

// layOut draws the buckets of these moments, in rows.
function layOut(shown) {
  const svg = $("f-yours");
  const width = Math.max(260, svg.clientWidth);
  const high = 282; // of a row
  const all = shown.flatMap((m) => m.limits.map((_, nth) => ({ m, nth })));
  const perRow = Math.max(1, Math.min(all.length, Math.floor(width / 130)));
  const room = width / perRow;
  svg.replaceChildren();
  yours.parts = all.map(({ m, nth }, i) => {
    const x = ((i % perRow) + 0.5) * room;
    const top = Math.floor(i / perRow) * high;
    const g = draw("g");
    const bucket = bucketIn(g, x, top + 166, Math.min(34, room / 6.4), { tapY: top + 20 });
    const number = label(x, top + 204, "", "number small middle");
    const [of, rate] = [label(x, top + 224, "", "of middle"), label(x, top + 242, "", "of middle")];
    svg.append(g, number, of, rate, label(x, top + 266, capital(nameOf(m)), "strong middle"));
    return { id: bucketId(m), nth, bucket, number, of, rate };
  });
  yours.pills = draw("g");
  svg.append(yours.pills);
  set(svg, "viewBox", `0 0 ${width} ${high * Math.max(1, Math.ceil(all.length / perRow))}`);
}

// nameOf says whose bucket it is.
function nameOf(m) {
  if (m.key.startsWith("global:")) return "everybody";
  return m.key.startsWith("ip:") ? m.key.replace("ip:", "IP ") : m.user;
}

function wayOf(d) {
  const b = yours.parts.find((p) => p.id === bucketId(d))?.bucket;
  return b && {
    from: [b.x - 30, b.rim - 100], to: [b.x, b.rim - 10],
    allowed: [b.x + b.half + 14, b.floor], denied: [b.x - b.half - 16, b.floor],
  };
}
