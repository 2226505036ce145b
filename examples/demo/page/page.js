// The page: what it hears of the demo comes through one stream, in order.

import { buildChapters, hearRun } from "./chapters.js";
import { buildCode, showCode } from "./code.js";
import { ask } from "./ask.js";
import { $, again, clockTime, make, plural, say, wait } from "./dom.js";
import { buildHero } from "./hero.js";
import { buildSentence } from "./knob.js";
import { buildSwitch, hearRedis } from "./lose.js";
import { calm, chapterOf, clock, delay, forget, frames, hearBucket, hearDecision, now, wake } from "./time.js";
import { open } from "./transport.js";
import { buildPresets, buildYours, hearSettings } from "./yours.js";

const hearing = {
  hello: greet,
  decisions: (list) => {
    for (const d of list) {
      hearDecision(d);
      note(d);
    }
  },
  buckets: (list) => list.forEach(hearBucket),
  settings: ({ chapter, settings }) => hearSettings(chapter, settings),
  run: (run) => hearRun(run, tellAloud),
  redis: hearRedis,
};

function connect() {
  open((name, text) => {
    hearing[name](JSON.parse(text));
    wake();
  }, lose);
}

// lose says that the demo does not answer. The picture stands still: what happens
// there is not known.
function lose() {
  clock.frozen ||= now();
  $("banner").hidden = false;
  document.body.classList.add("lost");
  setTimeout(connect, 1000);
}

let greeted = false;

// greet begins with what the demo says is so.
function greet(g) {
  clock.offset = g.now - performance.now();
  clock.frozen = 0;
  $("banner").hidden = true;
  document.body.classList.remove("lost");
  forget();
  unwritten.length = 0;
  $("rows").replaceChildren();
  g.buckets.forEach(hearBucket);
  say($("place"), g.place);
  say($("share-says"), `Redis: ${g.redis.text}`);
  hearRedis(g.redis);
  if (!greeted) buildPresets(g.presets);
  for (const [id, { settings, run }] of Object.entries(g.chapters)) {
    if (id === "drain" || id === "yours") hearSettings(id, settings);
    else chapterOf(id).settings = settings;
    say($(`v-${id}`), "");
    if (run.running) hearRun(run, () => {});
  }
  for (const id of ["share", "lose"]) showCode(id);
  const [l] = [...chapterOf("drain").buckets.values()][0][0].limits;
  if (!greeted && l?.tokens === l?.capacity) ask("POST", "api/run/drain/burst", { n: 15 }); // so that something is seen
  greeted = true;
}

// What a screen reader hears: each single answer at once, and a burst in one
// sentence.
const aloud = { list: [], timer: 0 };

function tellAloud(text) {
  $("said").textContent = text;
}

function sayAloud() {
  const list = aloud.list;
  const d = list.at(-1);
  const allowed = list.filter((d) => d.allowed).length;
  aloud.list = [];
  aloud.timer = 0;
  if (list.length > 1) tellAloud(`${list.length} requests: ${allowed} allowed, ${list.length - allowed} denied.`);
  else if (d.allowed) tellAloud(`${d.status}: allowed, ${plural(d.remaining, "token")} left.`);
  else if (d.status !== 429) tellAloud(`${d.status}: failed.`);
  else tellAloud(`429: denied, ${plural(d.remaining, "token")} left, ${again(d.retry_ms)}.`);
}

// The log. A row comes when its decision is drawn.
const unwritten = [];
const maxRows = 100;

function note(d) {
  unwritten.push(d);
  if (unwritten.length > maxRows) unwritten.shift();
  if (d.run && d.run !== "one") return; // what came of the script is said
  aloud.list.push(d);
  aloud.timer ||= setTimeout(sayAloud, delay);
}

frames.push((t) => {
  while (unwritten[0]?.show <= t) addRow(unwritten.shift());
  return unwritten.length > 0 ? 0 : Infinity;
});

function addRow(d) {
  const retry = d.status === 429 ? wait(d.retry_ms) : "";
  const cells = [d.id, clockTime(d.at), `${d.chapter} ${d.service}`, d.user, d.status, d.remaining, retry];
  $("rows").prepend(make("tr", {}, ...cells.map((c) => make("td", {}, String(c)))));
  if ($("rows").children.length > maxRows) $("rows").lastChild.remove();
}

// The first picture is there before the demo answers.
const full = { capacity: 10, tokens: 10, rate: 1, interval_ms: 1000, next_ms: 0, mode: "continuous" };
hearBucket({ chapter: "drain", service: "", key: "", at: now(), source: "store", limits: [full] });

buildHero();
buildSentence();
buildYours();
buildChapters();
buildSwitch();
buildCode();
calm.addEventListener("change", wake);
document.addEventListener("visibilitychange", wake);
connect();
