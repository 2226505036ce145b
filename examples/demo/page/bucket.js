// A bucket as a picture: up to 20 tokens are discs to count, more are water. It shows what Remaining says, and nothing else.

// Its form is that of internal/bucketform, which draws it for other pages and pictures.
const countable = 20, columns = 5, form = { mouth: 0.12, corner: 0.15, disc: 0.42, beside: 0.3, below: 0.58 };
const between = (a, b, p) => a + (b - a) * p;
const bound = (p) => Math.min(1, Math.max(0, p));

// bucketIn draws a bucket around x, on the floor. pitch is from one disc to the next. In a large one more than ten discs are smaller.
function bucketIn(parent, x, floor, pitch, tapY, large = false) {
  const half = (columns / 2 + form.beside) * pitch, b = { x, floor, pitch, half, tapY, large, columns, looks: "", discs: [], rim: floor };
  b.body = draw("path", { class: "body" });
  b.water = draw("path", { class: "water" });
  b.edge = draw("path", { class: "edge" });
  b.slots = draw("g", { class: "slots" });
  b.tokens = draw("g", { class: "tokens" });
  b.air = draw("g", { class: "tokens air" });
  b.mouth = draw("ellipse", { class: "mouth", cx: x, rx: half, ry: half * form.mouth });
  b.lid = draw("ellipse", { class: "lid", cx: x, rx: half, ry: half * form.mouth });
  b.ring = draw("path", { class: "ring", pathLength: 1 });
  b.el = draw("g", { class: "bucket" }, b.body, b.water, b.edge, b.slots, b.mouth, b.tokens, b.lid, b.ring, b.air);
  parent.append(b.el);
  return b;
}

const rowsOf = (b, capacity) => (b.columns > columns ? 3 : capacity > countable ? countable / columns : Math.max(1, Math.ceil(capacity / columns)));
const slotX = (b, i) => b.x + ((i % b.columns) - (b.columns - 1) / 2) * b.pitch;
const slotY = (b, i) => b.floor - b.pitch * (form.below + Math.floor(i / b.columns));

// shape draws what depends on the capacity alone.
function shape(b, capacity) {
  if (b.looks === capacity) return;
  b.looks = capacity;
  const { x, floor, half } = b;
  if (b.large) {
    b.columns = capacity > 10 ? 7 : columns;
    b.pitch = half / (b.columns / 2 + form.beside);
  }
  const disc = b.pitch * form.disc, r = half * form.corner, ry = b.ry = half * form.mouth, rim = b.rim = floor - rowsOf(b, capacity) * b.pitch - disc;
  for (const e of [b.body, b.edge]) set(e, "d", `M${x - half} ${rim}V${floor - r}Q${x - half} ${floor} ${x - half + r} ${floor}H${x + half - r}Q${x + half} ${floor} ${x + half} ${floor - r}V${rim}`);
  for (const e of [b.mouth, b.lid]) set(e, "cy", rim);
  set(b.ring, "d", `M${x} ${rim - ry}A${half} ${ry} 0 1 1 ${x - 0.1} ${rim - ry}`);
  const n = capacity > countable ? 0 : capacity, discs = (kind) => Array.from({ length: n }, (_, i) => draw("circle", { class: kind, cx: slotX(b, i), cy: slotY(b, i), r: disc }));
  b.slots.replaceChildren(...discs("slot"));
  b.tokens.replaceChildren(...(b.discs = discs("token")));
  b.air.replaceChildren();
}

// water is what stands so high in a bucket, with its surface. In a corner it is as narrow as the bucket is there.
function water({ x, floor, half, ry }, high) {
  if (high <= 0) return "";
  const r = half * form.corner, low = Math.min(high, r), s = 1 - Math.sqrt(low / r), narrow = half - r * s * s, at = (y) => (floor - y).toFixed(1);
  return `M${x - narrow} ${at(high)}A${narrow} ${ry} 0 0 1 ${x + narrow} ${at(high)}V${at(low)}Q${x + half - r * s} ${floor} ${x + half - r} ${floor}H${x - half + r}Q${x - half + r * s} ${floor} ${x - narrow} ${at(low)}Z`;
}

// flight puts the nth disc of those in the air somewhere.
function flight(b, nth, x, y, opacity) {
  const el = b.air.children[nth] ?? b.air.appendChild(draw("circle", { class: "token", r: b.pitch * form.disc }));
  set(el, "cx", x.toFixed(1));
  set(el, "cy", y.toFixed(1));
  set(el, "opacity", opacity.toFixed(2));
}

// showBucket draws the nth limit of a bucket as it is at t, and returns that state. Tokens on their way are drawn as part of a change
// at its instant: one that is taken rises to the request, one that comes back falls from the tap and is there on time.
function showBucket(b, moments, nth, t, cost = 1) {
  const m = latest(moments, t) ?? moments[0], l = m?.limits[nth];
  b.el.classList.toggle("unknown", !l);
  if (!l) return null;
  shape(b, l.capacity);
  const rises = 260, falls = 300;
  let air = 0;
  const near = around(moments, t, rises, calm.matches ? 0 : falls);
  if (l.capacity <= countable) {
    b.discs.forEach((disc, i) => {
      set(disc, "visibility", i < l.tokens ? null : "hidden");
      set(b.slots.children[i], "visibility", i < l.tokens ? "hidden" : null);
    });
    set(b.water, "d", "");
    let had = latest(moments, t - rises)?.limits[nth]?.tokens ?? l.tokens;
    for (const n of near) {
      const has = n.limits[nth]?.tokens ?? had, p = n.show <= t ? (t - n.show) / rises : (n.show - t) / falls;
      if (n.limits[nth]?.capacity !== l.capacity || calm.matches) continue;
      if (n.show <= t) for (let i = has; i < had && n.by; i++) flight(b, air++, between(slotX(b, i), b.x - b.half * 0.5, p), between(slotY(b, i), b.rim - 30 * b.pitch / 44, p), 1 - p * p);
      else for (let i = had; i < has; i++) flight(b, air++, between(slotX(b, i), b.x + b.half * 0.55, p), between(slotY(b, i), b.tapY ?? b.rim - b.pitch, p), 1);
      had = has;
    }
  } else {
    const last = near.findLast((n) => n.show <= t), before = last && latest(moments, last.show - 0.01)?.limits[nth];
    const tokens = before && !calm.matches && before.capacity === l.capacity ? between(before.tokens, l.tokens, bound((t - last.show) / 200)) : l.tokens;
    set(b.water, "d", water(b, (b.floor - b.rim) * tokens / l.capacity));
  }
  while (b.air.children.length > air) b.air.lastChild.remove();
  set(b.lid, "visibility", l.tokens < cost ? null : "hidden");
  const part = l.next_ms > 0 ? bound(1 - (m.at + l.next_ms - t) / l.period_ms) : 0;
  set(b.ring, "stroke-dasharray", `${part.toFixed(4)} 2`);
  set(b.ring, "visibility", part > 0.01 ? null : "hidden");
  return { ...l, moment: m, part };
}

// pills draws requests on their way: to a place, where they are decided, and away from it. route tells from where, to where, and
// where those that are allowed and those that are denied go; gone is which part of that way they are seen. text is how large they are with a
// text; without it they are discs.
function pills(layer, decisions, t, route, text) {
  let n = 0;
  const stay = calm.matches && text ? 4000 : leave, side = new Map(); // without motion those at one place stand side by side
  for (const d of around(decisions, t, stay, calm.matches ? 0 : travel)) {
    const way = route(d), p = d.show > t ? (d.show - t) / travel : (t - d.show) / stay;
    if (!way) continue;
    let [x, y] = way.to;
    if (d.show > t) {
      const path = way.via ? [way.from, ...way.via, way.to] : [way.from, way.to], at = (1 - p) * (path.length - 1), i = Math.min(Math.floor(at), path.length - 2);
      [x, y] = [between(path[i][0], path[i + 1][0], at - i), between(path[i][1], path[i + 1][1], at - i)];
    } else if (!calm.matches) {
      const end = d.allowed ? way.allowed : way.denied, q = d.allowed ? p ** 1.25 : p;
      [x, y] = [between(x, end[0], q), between(y, end[1], d.allowed ? q : p * p) - (d.allowed ? 0 : 0.35 * (end[1] - y) * p * (1 - p))];
    }
    if (calm.matches) {
      const place = `${x} ${d.allowed}`, k = side.get(place) ?? 0;
      side.set(place, k + 1);
      const apart = 62 * text, right = Math.max(x, 5.5 * apart); // five denials have room at the left, or in rows below
      if (!text) x += d.allowed ? k * 13 : -(k + 1) * 13;
      else if (d.allowed) [x, y] = [x + (k % 10) * 30, y + Math.floor(k / 10) * 32 * text];
      else [x, y] = [right - (k % 5 + 1) * apart, y + (Math.floor(k / 5) + (right > x)) * 32 * text];
    }
    const el = layer.children[n++] ?? layer.appendChild(pill(text));
    set(el, "class", `pill ${d.show > t ? "asks" : d.allowed ? "ok" : d.status === 429 ? "no" : "failed"}`);
    set(el, "transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})${text > 1 ? ` scale(${text})` : ""}`);
    set(el, "opacity", bound(d.show > t ? (1 - p) * 6 : ((!calm.matches && way.gone || 1) - p) * 4).toFixed(2));
    if (text) say(el.lastChild, d.show > t ? "GET /" : String(d.status));
  }
  while (layer.children.length > n) layer.lastChild.remove();
}

const pill = (text) => text ? draw("g", {}, draw("rect", { x: -29, y: -14, width: 58, height: 28, rx: 14 }), draw("text", { y: 5, class: "middle" }))
  : draw("g", {}, draw("circle", { r: 6 }));

// stairs is the tokens of moments over time as a path; x and y place it.
function stairs(moments, nth, from, to, x, y) {
  let path = "", last = null;
  for (const m of moments) {
    if (m.show > to) break;
    const l = m.limits[nth];
    if (!l) { last = null; continue; }
    const high = y(l.tokens / l.capacity).toFixed(1);
    if (m.show < from) { path = `M${x(from).toFixed(1)} ${high}`; last = high; continue; }
    path += last === null ? `M${x(m.show).toFixed(1)} ${high}` : `H${x(m.show).toFixed(1)}V${high}`;
    last = high;
  }
  return last === null ? path : `${path}H${x(to).toFixed(1)}`;
}

// marks is requests over time as a path: a dot each, or a cross. Those of a burst move apart, so that they can be counted: to the right, or
// with to at the right edge to the left.
function marks(decisions, which, from, to, x, y, cross, left) {
  const list = decisions.filter((d) => d.show > from && d.show <= to && which(d)).map((d) => x(d.show)), apart = 7;
  if (left) for (let i = list.length - 2; i >= 0; i--) list[i] = Math.min(list[i], list[i + 1] - apart);
  else for (let i = 1; i < list.length; i++) list[i] = Math.max(list[i], list[i - 1] + apart);
  return list.map((at) => cross ? `M${(at - 2.5).toFixed(1)} ${y - 2.5}l5 5m0-5l-5 5` : `M${at.toFixed(1)} ${y}h0`).join("");
}
