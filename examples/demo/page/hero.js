// The first screen: one bucket, what comes to it, the answer, and the code.

const hero = { per: 1, high: 300, floor: 290, x: 480, pitch: 83.5, drawn: null };

function buildHero() {
  const svg = $("picture");
  hero.bucket = bucketIn(svg, hero.x, hero.floor, hero.pitch, 22, true);
  hero.number = label(112, 244, "", "number middle");
  hero.of = label(112, 268, "", "of middle");
  hero.by = label(112, 288, "", "of middle");
  hero.pills = draw("g", { class: "pills" });
  hero.tag = draw("g", { class: "tag", visibility: "hidden" }, draw("rect", { height: 28, rx: 8 }), draw("text", { x: 14, y: 20 }, draw("tspan", { class: "strong" }), draw("tspan")));
  const pipe = draw("g", { id: "tap", "data-field": "rate", class: "tap" }, draw("rect", { x: 600, y: -4, width: 116, height: 34, class: "touch" }),
    draw("path", { class: "pipe" }), draw("circle", { class: "wheel", cx: 662, cy: 12, r: 10 }), draw("path", { class: "spokes", d: "M655 12h14M662 5v14" }));
  hero.pipe = pipe.children[1];
  hero.tapSays = label(592, 17, "", "of end");
  hero.grip = draw("g", { id: "rim", "data-field": "capacity", class: "grip" }, draw("rect", { x: -66, y: -16, width: 92, height: 32, class: "touch" }),
    draw("circle", { r: 9 }), draw("path", { class: "spokes", d: "M-3-2L0-5L3-2M-3 2L0 5L3 2" }), label(-16, -9, "", "end"), label(-16, 7, "", "of end"));
  hero.stays = label(0, 0, "", "of end");
  svg.append(hero.number, hero.of, hero.by, pipe, hero.tapSays, hero.grip, hero.stays, hero.pills, hero.tag);
  const perPixel = () => 720 / svg.getBoundingClientRect().width;
  knob(hero.grip, "capacity", "Rim: the bucket’s capacity", (start, dx, dy) => {
    const up = -dy * perPixel();
    return start > countable ? step("capacity", start, Math.round(up / 8)) : Math.max(1, Math.round(Math.min(start + (up / hero.bucket.pitch) * hero.bucket.columns, countable)) + Math.max(0, Math.round((start + (up / hero.bucket.pitch) * hero.bucket.columns - countable) / 2)));
  });
  knob(pipe, "rate", "Tap: tokens that come back");
  for (const field of ["capacity", "cost", "rate", "interval"]) {
    const el = $(`k-${field}`);
    el.dataset.field = field === "interval" ? "interval_ms" : field;
    knob(el, el.dataset.field);
  }
  hero.strip = stripIn($("strip"), 90);
  $("burst").addEventListener("click", () => send("burst", { n: 15 }));
  $("one").addEventListener("click", () => send("one", {}));
  $("fill").addEventListener("click", () => send("fill", {}));
  $("framework").addEventListener("change", () => { for (const stage of Object.keys(programs)) showCode(stage); });
  $("copy").addEventListener("click", () => copy(programs.drain?.program, $("copy")));
  frames.push(drawHero);
}

// low reports whether the picture is a phone's, and has a line below the bucket.
const low = ({ high }) => high > 300;

const send = (script, order) => play("drain", script, { framework: $("framework").value, ...order });

// play has the demo play a script. If it doesn't, the words say why.
async function play(id, script, order) {
  const got = await ask("POST", `/api/run/${id}/${script}`, order);
  if (got && !got.ok) say($(`v-${id}`), capital(got.data[""] ?? "the demo can’t play this"));
}

// showSentence writes the settings as a sentence: its numbers are sliders.
function showSentence() {
  if (!stageOf("drain").settings) return;
  const s = { ...stageOf("drain").settings, ...turned.sent, ...turned.fields };
  say($("k-capacity"), capital(inWords(s.capacity)));
  say($("k-cost"), inWords(s.cost));
  say($("k-rate"), capital(inWords(s.rate)));
  say($("comes"), s.rate === 1 ? "comes" : "come");
  say($("k-interval"), duration(s.interval_ms));
  say(hero.tapSays, `${plural(s.rate, "token")} each ${duration(s.interval_ms)}${{ stepped: ", at once", aligned: ", by the clock" }[s.mode] ?? ""}`);
  showKnobs();
}

function drawHero(t) {
  const stage = stageOf("drain"), d = latest(stage.decisions, t), moments = stage.buckets.get(d && bucketId(d)) ?? inUse(stage)[0]?.[1] ?? [], cost = stage.settings?.cost ?? 1;
  const l = showBucket(hero.bucket, moments, 0, t, cost), b = hero.bucket;
  if (!l) return 1000;
  const lane = b.rim - b.ry - 20, spout = b.x + b.half * 0.55;
  set(hero.pipe, "d", `M716 12H${spout + 8}Q${spout} 12 ${spout} 20V${(b.rim - b.ry * 0.84).toFixed(1)}`);
  say(hero.number, short(l.tokens));
  set(hero.number, "class", `number middle${hero.number.textContent.length > 4 ? " long" : ""}`);
  say(hero.of, `of ${low(hero) ? short(l.capacity) : plural(l.capacity, "token")} left`);
  say(hero.by, l.moment.source === "fallback" ? "by this process alone" : "");
  set(hero.grip, "transform", `translate(${b.x - b.half} ${b.rim})`);
  say(hero.grip.children[3], `burst ${short(l.capacity)}`);
  say(hero.grip.lastChild, `${low(hero) ? "" : "at most "}${short(Math.floor(l.capacity / Math.max(1, cost)))} at once`);
  showStays(moments, l);
  pills(hero.pills, stage.decisions, t, () => ({ from: [-10, lane], to: [b.x - b.half * 0.5, lane], allowed: [840, lane], gone: 0.76, denied: [b.x - b.half - 40, b.floor - 12] }), Math.max(1, hero.per * 0.95));
  showTag(d, t, l, cost);
  if (d !== hero.drawn) showDecision(d);
  hero.drawn = d;
  drawStrip(hero.strip, moments, stage.decisions, t);
  const moving = moments.findLast((m) => m.by)?.show > t - 31e3 ? 33 : Infinity;
  return Math.min(restOf(stage, t), moving);
}

// showStays says at the rim what a changed capacity leaves: what was taken stays taken. It ends with the next change of the bucket.
function showStays(moments, l) {
  const before = moments[moments.indexOf(l.moment) - 1]?.limits[0]?.capacity ?? l.capacity, taken = l.capacity - l.tokens;
  say(hero.stays, before === l.capacity || taken === 0 ? "" : `${short(before)} → ${short(l.capacity)}: ${plural(taken, "token")} taken ${taken === 1 ? "stays" : "stay"} taken`);
  set(hero.stays, "x", low(hero) ? 716 : hero.bucket.x + hero.bucket.half * 0.55 - 14);
  set(hero.stays, "y", low(hero) ? hero.high - 20 : hero.bucket.rim - hero.bucket.ry - 8);
}

// showTag says why the latest request was denied, and counts down to when one is allowed. It ends when that has come, or when another
// limit holds.
function showTag(d, t, l, cost) {
  const wait = d?.retry_ms - (t - d?.at), same = (of) => ["capacity", "rate", "interval_ms", "mode"].every((k) => of?.[k] === l[k]);
  const on = d && !d.allowed && (d.status === 429 ? l.tokens < cost && same(d.limits?.[0]) && (d.retry_ms < 0 || wait > 0) : t - d.show < 4000);
  set(hero.tag, "visibility", on ? null : "hidden");
  if (!on) return;
  const scale = Math.max(1, hero.per * 0.86), [box, text] = hero.tag.children, [why, when] = text.children; // on a phone below the bucket, in one line
  set(hero.tag, "transform", low(hero) ? `translate(0 ${hero.high - 30 * scale}) scale(${scale})` : `translate(0 98) scale(${scale})`);
  for (const [el, name, value] of [[box, "width", low(hero) ? 720 / scale : 190], [box, "height", low(hero) ? 28 : 48], [when, "x", low(hero) ? null : 14], [when, "dx", low(hero) ? 5 : 0], [when, "dy", low(hero) ? 0 : 18]]) set(el, name, value);
  say(why, d.status === 429 ? `denied: ${plural(d.remaining, "token")} left,` : `failed: status ${d.status}`);
  say(when, d.status === 429 ? again(d.retry_ms < 0 ? -1 : wait) : "");
}

// The strip: tokens left, and requests, over 30 seconds.
const span = 30e3;

function stripIn(svg, height) {
  const s = { width: 720, height, base: draw("path", { class: "base" }) };
  for (const [name, kind] of [["area", "area"], ["line", "left"], ["ok", "ok dots"], ["no", "no crosses"]]) s[name] = draw("path", { class: kind });
  s.top = label(0, 0, "", "of hanging");
  svg.append(s.base, s.area, s.line, s.ok, s.no, s.top);
  return s;
}

function drawStrip(s, moments, decisions, t) {
  const from = t - span, x = (at) => s.width * (at - from) / span, low = s.height - 28, y = (part) => low - (low - 20) * part;
  set(s.base, "d", `M0 ${s.height - 26.5}H${s.width}`);
  const line = stairs(moments, 0, from, t, x, y);
  set(s.line, "d", line);
  set(s.area, "d", line.split("M").slice(1).map((part) => `M${part}V${low}H${parseFloat(part)}Z`).join(""));
  set(s.ok, "d", marks(decisions, (d) => d.allowed, from, t, x, s.height - 17, false, true));
  set(s.no, "d", marks(decisions, (d) => !d.allowed, from, t, x, s.height - 6, true, true));
  say(s.top, plural(latest(moments, t)?.limits[0]?.capacity ?? 0, "token"));
}

// What a header field means, and what of the picture it is about.
const spelled = { "X-Ratelimit-Limit": "X-RateLimit-Limit", "X-Ratelimit-Remaining": "X-RateLimit-Remaining", "X-Ratelimit-Reset": "X-RateLimit-Reset", Ratelimit: "RateLimit", "Ratelimit-Policy": "RateLimit-Policy",
  "Ratelimit-Limit": "RateLimit-Limit", "Ratelimit-Remaining": "RateLimit-Remaining", "Ratelimit-Reset": "RateLimit-Reset" };
const part = (text, name) => text.match(new RegExp(`;${name}=(\\d+)`))?.[1];
const meanings = {
  "Retry-After": ["ring", (v) => `wait ${v} s`],
  "X-Ratelimit-Limit": ["rim", (v) => `the bucket holds ${v}`],
  "X-Ratelimit-Remaining": ["tokens", (v) => `${plural(Number(v), "token")} left`],
  "X-Ratelimit-Reset": ["tap", (v) => `full again at ${clockTime(Number(v) * 1000)}`],
  Ratelimit: ["tokens", (v, d) => d.allowed ? `${plural(Number(part(v, "r")), "token")} left${part(v, "t") ? ` for the next ${part(v, "t")} s` : ""}` : `${plural(d.remaining, "token")} left, ${part(v, "t") ? `more in ${part(v, "t")} s` : again(-1)}`],
  "Ratelimit-Policy": ["tap", (v) => `${part(v, "q")} tokens each ${part(v, "w")} s`],
  "Ratelimit-Limit": ["rim", (v) => `the bucket holds ${v}`],
  "Ratelimit-Remaining": ["tokens", (v) => `${plural(Number(v), "token")} left`],
  "Ratelimit-Reset": ["tap", (v) => `full again in ${v} s`],
  "Cache-Control": [null, () => "must not be cached"],
  "Content-Type": [null, (v, d) => d.allowed ? "what the app answers" : "the body says why"],
};
const order = Object.keys(meanings);

// showDecision shows the answer to a request, row by row.
function showDecision(d) {
  if (!d?.headers) return;
  const text = { 200: "200 OK", 429: "429 Too Many Requests", 503: "503 Service Unavailable" }[d.status] ?? String(d.status);
  set($("status"), "data-kind", d.allowed ? "ok" : "no");
  if (!$("framework").value && d.framework !== hero.framework) { // the code is of the one that answered
    clearTimeout(hero.later);
    hero.later = setTimeout(() => showCode(), 300);
  }
  hero.answered = d.framework;
  $("status").replaceChildren(make("strong", {}, text), ` from ${nameOf(d.framework)}`);
  const fields = d.headers.filter(([name]) => meanings[name]).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  while ($("fields").children.length > 2 * fields.length) $("fields").lastChild.remove();
  fields.forEach(([name, value], i) => {
    const [about, means] = meanings[name];
    if ($("fields").children.length <= 2 * i) addField();
    const [field, meaning] = [$("fields").children[2 * i].firstChild, $("fields").children[2 * i + 1]];
    say(field, `${spelled[name] ?? name}: ${value}`);
    say(meaning, means(value, d));
    field.dataset.about = about ?? "";
  });
  let body = d.body;
  try { body = JSON.stringify(JSON.parse(d.body)).replace(/,"/g, ', "').replace(/":/g, '": '); } catch { /* another framework's text */ }
  $("body").hidden = false;
  say($("body"), body);
}

// addField adds a row. While the pointer is on it, or the focus, the picture marks what it is about.
function addField() {
  const field = make("button", { type: "button", class: "field" });
  const about = (on) => set($("picture"), "data-about", on ? field.dataset.about : null);
  for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) field.addEventListener(event, () => about(on));
  $("fields").append(make("dt", {}, field), make("dd"));
}

// showCode shows the lines of Go that make the limits of a stage. What has changed is marked.
async function showCode(stage = "drain") {
  const n = asks[stage] = (asks[stage] ?? 0) + 1, got = await ask("GET", `/api/code/${stage}?framework=${$("framework").value || hero.answered || ""}`);
  if (!got?.ok || n !== asks[stage]) return; // another one was asked for since
  const { lines, framework } = got.data, el = $(stage === "drain" ? "code" : `code-${stage}`), old = programs[stage] ?? {};
  programs[stage] = got.data;
  if (stage === "drain") {
    hero.framework = framework;
    say($("h-go"), `In Go, for ${nameOf(framework)}`);
  }
  if (old.lines === lines) return;
  const words = (text = "") => text.match(/[\w.]+|\s+|[^\w\s]/g) ?? [], before = words(old.lines), after = words(lines), marked = before.length > 0;
  let from = 0, to = 0; // how many words are as before, at the start and at the end
  while (from < after.length && after[from] === before[from]) from++;
  while (to < after.length - from && after.at(-1 - to) === before.at(-1 - to)) to++;
  const parts = [after.slice(0, from), after.slice(from, after.length - to), after.slice(after.length - to)].map((part) => part.join(""));
  el.replaceChildren(...marked ? [parts[0], make("mark", {}, parts[1]), parts[2]] : [lines]);
}

const programs = {}, asks = {}; // stage → its code, and how often it was asked for
