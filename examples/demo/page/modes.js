// Chapter 1: three buckets on one time axis.

import { bucketIn, marks, showBucket, stairs } from "./bucket.js";
import { count } from "./box.js";
import { capital, draw, label, say, set, short } from "./dom.js";
import { chapterOf, momentsOf, restOf } from "./time.js";

const modes = {
  continuous: "little by little",
  stepped: "all when five seconds are over",
  aligned: "all when the clock strikes",
};
const span = 16e3; // ms of the axis

export function buildModes(svg, width, wide) {
  const [left, right] = [wide ? 250 : 6, width - 8];
  const apart = wide ? 102 : 172;
  const high = 3 * apart + 24;
  const rows = Object.entries(modes).map(([name, how], i) => {
    const top = 8 + i * apart;
    const base = top + (wide ? 62 : 136); // of the line
    const row = { name, base, bucket: bucketIn(svg, 70, top + 78, 22) };
    row.number = label(140, top + 74, "", "number small");
    row.line = draw("path", { class: "left" });
    row.ok = draw("path", { class: "ok dots" });
    row.no = draw("path", { class: "no crosses" });
    row.clock = draw("path", { class: "clock" });
    row.sum = ["ok", "", "no", ""].map((kind) => draw("tspan", { class: kind }));
    const title = draw("text", { x: 4, y: top + 10 },
      draw("tspan", { class: "strong" }, capital(name)), draw("tspan", { class: "of", dx: 8 }, how));
    const sum = draw("text", { x: right, y: top + (wide ? 10 : 90), class: "end of" }, ...row.sum);
    if (wide) svg.append(label(left - 6, base - 37, "10", "of end"), label(left - 6, base + 2, "0", "of end"));
    const axis = draw("path", { class: "base", d: `M${left} ${base}H${right}` });
    svg.append(title, row.number, axis, row.clock, row.line, row.ok, row.no, sum);
    return row;
  });
  for (let s = 0; s <= 15; s += 5) {
    svg.append(label(left + ((right - left) * s * 1000) / span, high - 4, `${s} s`, s > 0 ? "of middle" : "of"));
  }
  return { high, frame: (t) => drawModes(rows, left, right, t) };
}

function drawModes(rows, left, right, t) {
  const chapter = chapterOf("modes");
  const from = chapter.began ?? t;
  const to = Math.min(t, from + span);
  const x = (at) => left + ((right - left) * (at - from)) / span;
  const began = from < t && chapter.decisions.length > 0;
  for (const row of rows) {
    const moments = momentsOf(chapter, row.name);
    const l = showBucket(row.bucket, moments, 0, t);
    if (!l) continue;
    say(row.number, short(l.tokens));
    const of = (allowed) => chapter.decisions.filter((d) => d.service === row.name && d.allowed === allowed);
    set(row.line, "d", began ? stairs(moments, 0, from, to, x, (part) => row.base - 2 - 40 * part) : "");
    set(row.ok, "d", began ? marks(of(true), from, t, x, row.base + 9) : "");
    set(row.no, "d", began ? marks(of(false), from, t, x, row.base + 21, { cross: true }) : "");
    const [allowed, denied] = [200, 429].map((status) => count(chapter, t, row.name, status));
    const sum = began ? ["● ", `${allowed} allowed  `, "✕ ", `${denied} denied`] : ["", "", "", ""];
    sum.forEach((text, i) => say(row.sum[i], text));
    let clock = "";
    const first = Math.ceil(from / l.interval_ms) * l.interval_ms;
    for (let at = first; began && row.name === "aligned" && at < from + span; at += l.interval_ms) {
      clock += `M${x(at).toFixed(1)} ${row.base - 46}v48`;
    }
    set(row.clock, "d", clock);
  }
  return restOf(chapter, t);
}
