// Chapter 3: what each policy does without Redis.

import { ask } from "./ask.js";
import { bucketIn, pills, showBucket } from "./bucket.js";
import { box, count, wire } from "./box.js";
import { $, draw, label, say, set, short } from "./dom.js";
import { chapterOf, latest, momentsOf, restOf } from "./time.js";

const policies = {
  closed: { title: "Fail closed", does: "503: nothing is allowed", word: "503" },
  open: { title: "Fail open", does: "everything is allowed", word: "200" },
  local: { title: "Fail local, the default", does: "at most twice the limit", word: "" },
};

export function buildSwitch() {
  const on = () => $("redis").getAttribute("aria-checked") === "true";
  $("redis").addEventListener("click", () => ask("POST", "api/redis", { on: !on() }));
}

export function hearRedis({ up, text }) {
  set($("redis"), "aria-checked", String(up));
  say($("redis-says"), up ? `on: ${text}` : "off: two local buckets allow at most twice the limit");
}

export function buildLose(svg, width, wide) {
  const power = draw("g", { class: "redis" });
  svg.append(power);
  const c = { power, layer: draw("g"), room: wide ? width / 3 : width };
  c.names = (wide ? [0] : [0, 380, 760]).map((top) => {
    const g = box(4, top + 6, width - 8, 140, "Redis");
    const cross = `M14 ${top + 16}L${width - 14} ${top + 136}M14 ${top + 136}L${width - 14} ${top + 16}`;
    power.append(g, draw("path", { class: "cross", d: cross }));
    return g.lastChild;
  });
  c.columns = Object.keys(policies).map((name, i) =>
    column(svg, c, name, wide ? (i + 0.5) * c.room : width / 2, wide ? 0 : i * 380));
  svg.append(c.layer);
  return { high: wide ? 366 : 1126, frame: (t) => drawLose(c, t) };
}

// column draws a bucket in Redis, and the two replicas of a policy below it.
function column(svg, c, name, x, top) {
  const side = Math.min(70, c.room / 4); // from the middle to a replica's
  const col = { name, x, top, side, shared: bucketIn(c.power, x, top + 136, Math.min(22, (side - 5) / 2.8)) };
  col.number = label(x + side + 6, top + 132, "", c.room < 240 ? "number tiny" : "number small");
  c.power.append(col.number);
  col.replicas = ["A", "B"].map((replica, i) => {
    const at = x + (2 * i - 1) * side;
    const g = box(at - side + 4, top + 188, 2 * side - 8, 104, replica);
    const own = bucketIn(g, at, top + 282, Math.min(16, (side - 12) / 2.8));
    own.el.classList.add("half");
    const word = label(at, top + 254, "", "middle strong");
    g.append(word);
    svg.append(wire(`M${at} ${top + 188}V${top + 64}H${x}V${top + 82}`), g);
    return { service: `${name} ${replica}`, x: at, own, word };
  });
  col.sum = label(x, top + 336, "", "middle of");
  col.does = label(x, top + 356, "", "middle strong");
  svg.append(label(x, top + 314, policies[name].title, "middle strong"), col.sum, col.does);
  return col;
}

const fromRedis = (m) => m.source === "store";

function drawLose(c, now) {
  const chapter = chapterOf("lose");
  const over = chapter.run.script === "play" && !chapter.run.running;
  const last = over && chapter.decisions.findLast((d) => d.run === "outage");
  const t = last ? Math.min(now, last.show + 1) : now; // the outage's last frame stays
  let off = false;
  for (const col of c.columns) off = drawColumn(chapter, col, t) || off;
  c.power.classList.toggle("off", off);
  for (const name of c.names) say(name, off ? (last ? "While Redis was off" : "Redis is off") : "Redis");
  pills(c.layer, chapter.decisions, now, (d) => wayOf(c, d));
  return restOf(chapter, now);
}

// drawColumn reports whether Redis is off.
function drawColumn(chapter, col, t) {
  const { name } = col;
  const moments = col.replicas.map((r) => momentsOf(chapter, r.service).filter((m) => m.show <= t));
  const alone = moments.map((list) => list.length > 0 && !fromRedis(list.at(-1)));
  const off = alone.some(Boolean);
  const l = showBucket(col.shared, moments[0].filter(fromRedis), 0, t);
  say(col.number, off ? "?" : l ? short(l.tokens) : "");
  col.replicas.forEach((r, i) => {
    const local = alone[i] && latest(moments[i], t).limits.length > 0;
    set(r.own.el, "visibility", local ? null : "hidden");
    if (local) showBucket(r.own, moments[i], 0, t);
    say(r.word, alone[i] && !local ? policies[name].word : "");
  });
  const outage = { decisions: chapter.decisions.filter((d) => d.run === "outage") };
  const words = { 200: "allowed", 429: "denied", 503: "failed" };
  const sums = Object.entries(words).map(([status, word]) => [count(outage, t, name, Number(status)), word]);
  say(col.sum, sums.filter(([n]) => n > 0).map((sum) => sum.join(" ")).join(", "));
  say(col.does, off ? policies[name].does : "");
  return off;
}

function wayOf(c, d) {
  const col = c.columns.find((col) => d.service.startsWith(col.name));
  const r = col.replicas.find((r) => r.service === d.service);
  const shared = d.status !== 503 && fromRedis(d);
  return {
    from: [r.x, col.top + 296],
    via: shared ? [[r.x, col.top + 188], [r.x, col.top + 64]] : [],
    to: shared ? [col.x, col.top + 64] : [r.x, col.top + 226],
    allowed: [r.x, col.top + 176], denied: [r.x + col.side - 20, col.top + 300],
  };
}
