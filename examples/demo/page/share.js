// Chapter 2: two replicas with one bucket in Redis, and two without.

import { bucketIn, pills, showBucket } from "./bucket.js";
import { box, count, wire } from "./box.js";
import { draw, label, say, short } from "./dom.js";
import { chapterOf, momentsOf, restOf } from "./time.js";

export function buildShare(svg, width, wide) {
  const room = wide ? width / 2 : width;
  const panels = [withRedis(svg, 0, 0, room), without(svg, wide ? room : 0, wide ? 0 : 372, room)];
  const layer = draw("g");
  svg.append(layer);
  return { high: wide ? 362 : 734, frame: (t) => drawShare(panels, layer, t) };
}

function withRedis(svg, left, top, room) {
  const p = panel(svg, left, top, room, "With Redis: one bucket for both");
  const power = draw("g", { class: "redis" }, box(p.sides[0] - p.half, top + 196, 4 * p.half + 8, 120, "Redis"));
  for (const x of p.sides) power.append(wire(`M${x} ${top + 164}V${top + 196}L${p.mid - 24} ${top + 238}`));
  p.shared = bucketIn(power, p.mid - 24, top + 306, 24);
  p.number = label(p.mid + 58, top + 300, "", "number small");
  power.append(p.number);
  svg.append(power);
  p.replicas = ["A", "B"].map((name, i) => {
    svg.append(box(p.sides[i] - p.half, top + 92, 2 * p.half, 72, `Replica ${name}`));
    return replica(svg, p, name, p.sides[i], top + 196, p.shared);
  });
  return p;
}

function without(svg, left, top, room) {
  const p = panel(svg, left, top, room, "Without: each its own bucket");
  p.replicas = ["A", "B"].map((name, i) => {
    svg.append(box(p.sides[i] - p.half, top + 92, 2 * p.half, 224, `Replica ${name}`));
    const own = bucketIn(svg, p.sides[i], top + 306, Math.min(22, (p.half - 8) / 2.8));
    return replica(svg, p, `alone ${name}`, p.sides[i], top + 190, own);
  });
  return p;
}

// panel draws what both have: a title, a load balancer and a sum.
function panel(svg, left, top, room, title) {
  const mid = left + room / 2;
  const half = Math.min(78, room / 4 - 8); // of a replica's box
  const p = { mid, top, half, sides: [mid - half - 4, mid + half + 4] };
  p.sum = label(mid, top + 352, "", "middle number small");
  for (const x of p.sides) svg.append(wire(`M${mid} ${top + 64}L${x} ${top + 92}`));
  svg.append(label(mid, top + 16, title, "middle strong"), box(mid - 66, top + 32, 132, 32, "Load balancer"), p.sum);
  return p;
}

function replica(svg, p, name, x, low, bucket) {
  const r = { name, x, bucket };
  r.sum = label(x, p.top + 132, "", "middle of");
  r.no = label(x, p.top + 152, "", "middle of");
  r.way = [[p.mid, p.top + 62], [p.mid, p.top + 64], [x, p.top + 92], [x, low]];
  svg.append(r.sum, r.no);
  return r;
}

function drawShare(panels, layer, t) {
  const chapter = chapterOf("share");
  const began = chapter.decisions.some((d) => d.show <= t);
  for (const p of panels) {
    for (const r of p.replicas) {
      const l = showBucket(r.bucket, momentsOf(chapter, p.shared ? "A" : r.name), 0, t);
      if (l && p.number) say(p.number, short(l.tokens));
      say(r.sum, began ? `${count(chapter, t, r.name, 200)} allowed` : "");
      say(r.no, began ? `${count(chapter, t, r.name, 429)} denied` : "");
    }
    const all = p.replicas.reduce((n, r) => n + count(chapter, t, r.name, 200), 0);
    say(p.sum, began ? `${all} allowed` : "");
  }
  const replicas = panels.flatMap((p) => p.replicas);
  pills(layer, chapter.decisions, t, (d) => {
    const r = replicas.find((r) => r.name === d.service);
    const out = r.x < r.way[0][0] ? -1 : 1; // away from the middle
    return {
      from: r.way[0], via: r.way.slice(1), to: [r.bucket.x, r.bucket.rim - 10],
      allowed: [r.x, r.way[2][1] + 30], denied: [r.x + out * 60, r.bucket.floor],
    };
  });
  return restOf(chapter, t);
}
