// The chapters: each has one button, and a picture whose last frame stays.

const chapters = { modes: {}, share: {}, lose: {} };
const modeNames = { continuous: "little by little", stepped: "all when five seconds are over", aligned: "all when the clock strikes" };

function buildChapters() {
  for (const id of Object.keys(chapters)) frames.push((t) => chapters[id].frame?.(t) ?? Infinity);
  addEventListener("resize", build);
  for (const button of document.querySelectorAll("[data-play]")) {
    button.addEventListener("click", () => {
      const id = button.dataset.play, script = button.dataset.script ?? "play", stage = stageOf(id);
      if (stage.run.running && stage.run.script === script) return ask("DELETE", `/api/run/${id}`);
      const typed = button.id !== "play-yours" && { burst: "n", steady: "per" }[script];
      if (typed && !$(typed).reportValidity()) return;
      play(id, script, { n: Number(button.dataset.n || $("n").value), rate: Number($("per").value), seconds: 10, user: $("user").value, framework: $("framework").value });
    });
    button.dataset.name = button.textContent;
  }
  $("redis").addEventListener("click", () => ask("POST", "/api/redis", { on: $("redis").getAttribute("aria-checked") !== "true" }));
}

// hearRun shows what became of a script. The words come when the picture has shown it.
function hearRun(run, past) {
  const stage = stageOf(run.stage);
  if (stage.run?.at === run.at && stage.run.running === run.running) return; // a page that comes back has said it, and perhaps something since
  stage.run = run;
  if (run.running && run.script === "play") {
    stage.began = run.at;
    stage.decisions = stage.decisions.filter((d) => d.show > run.at);
  }
  for (const button of document.querySelectorAll(`[data-play="${run.stage}"]`)) {
    const mine = run.running && run.script === (button.dataset.script ?? "play") && run.script !== "one" && run.script !== "burst";
    say(button, mine ? "Stop" : button.dataset.name);
  }
  const show = () => {
    const el = $(`v-${run.stage}`);
    if (stage.run === run && el && (run.text || run.running || !run.script)) say(el, run.text);
    if (run.text && !past && run.script !== "fill") tellAloud(run.text);
  };
  if (past || run.running) show(); else setTimeout(show, Math.max(delay, Math.max(0, ...Object.values(stage.last)) - now()));
}

// A picture is as wide as its place, so that letters are as large as in the text. Below 560 pixels its parts stand one below the other.
const wideFrom = 560;

function build() {
  for (const [id, buildIn] of Object.entries({ modes: buildModes, share: buildShare, lose: buildLose })) {
    const svg = $(`f-${id}`), width = Math.max(260, svg.clientWidth);
    if (chapters[id].width === width) continue;
    svg.replaceChildren();
    chapters[id] = { width };
    set(svg, "viewBox", `0 0 ${width} ${buildIn(svg, width, width >= wideFrom)}`);
  }
  hero.high = $("picture").clientWidth < wideFrom ? 364 : 300;
  set($("picture"), "viewBox", `0 0 720 ${hero.high}`);
  hero.per = Math.max(720 / $("picture").clientWidth, hero.high / $("picture").clientHeight) || 1; // units a pixel: letters stay large enough
  const letters = Math.max(1, hero.per);
  $("picture").style.setProperty("--per", letters);
  for (const [el, y] of [[hero.tapSays, 7 + 10 * letters], [hero.of, 252 + 15 * letters], [hero.by, 252 + 33 * letters], [hero.grip.children[3], low(hero) ? 5 : 7 - 16 * letters], [hero.grip.lastChild, low(hero) ? 5 + 17 * letters : 7]]) set(el, "y", y);
  hero.strip.width = $("strip").clientWidth || 720;
  set($("strip"), "viewBox", `0 0 ${hero.strip.width} 90`);
  yours.looks = "";
  wake();
}

// A box of a picture, with a name.
const box = (x, y, width, height, name, kind = "box") => draw("g", { class: kind }, draw("rect", { x, y, width, height, rx: 10 }), label(x + width / 2, y + 19, name, "middle strong"));
const bucketsOf = (stage, lane) => [...stage.buckets].find(([id]) => id.startsWith(`${lane}/`))?.[1] ?? [];
const count = (stage, t, lane, status, run) => stage.decisions.filter((d) => d.show <= t && (d.lane ?? "").startsWith(lane) && (!run || d.run === run) && (d.status === 200 || d.status === 429 ? d.status === status : status === 503)).length;

// 1: three buckets on one time axis.
const axis = { span: 16e3 };

function buildModes(svg, width, wide) {
  const c = chapters.modes, left = wide ? 250 : 6, right = width - 8, step = wide ? 102 : 172, low = wide ? 62 : 136;
  c.rows = Object.entries(modeNames).map(([name, how], i) => {
    const top = 8 + i * step, row = { name, top: top + low - 62 };
    row.bucket = bucketIn(svg, 70, top + 78, 22);
    row.number = label(140, top + 74, "", "number small");
    row.line = draw("path", { class: "left" });
    row.ok = draw("path", { class: "ok dots" });
    row.no = draw("path", { class: "no crosses" });
    row.marks = draw("path", { class: "clock" });
    row.sum = draw("text", { x: right, y: top + (wide ? 10 : 90), class: "end of" }, ...["ok", "", "no", ""].map((kind) => draw("tspan", { class: kind })));
    if (wide) svg.append(label(left - 6, row.top + 25, "10", "of end"), label(left - 6, row.top + 64, "0", "of end"));
    svg.append(draw("text", { x: 4, y: top + 10 }, draw("tspan", { class: "strong" }, capital(name)), draw("tspan", { class: "of", dx: 8 }, how)), row.number, draw("path", { class: "base", d: `M${left} ${row.top + 62}H${right}` }), row.marks, row.line, row.ok, row.no, row.sum);
    return row;
  });
  const high = 3 * step + 24;
  for (let s = 0; s <= 15; s += 5) svg.append(label(left + (right - left) * s * 1000 / axis.span, high - 4, `${s} s`, s > 0 ? "of middle" : "of"));
  c.frame = (t) => {
    const stage = stageOf("modes"), from = stage.began ?? stage.decisions[0]?.show ?? t, to = Math.min(t, from + axis.span);
    const x = (at) => left + (right - left) * (at - from) / axis.span, began = stage.decisions.length > 0 && from <= t;
    for (const row of c.rows) {
      const moments = bucketsOf(stage, row.name), l = showBucket(row.bucket, moments, 0, t), decisions = stage.decisions.filter((d) => d.lane === row.name);
      if (!l) continue;
      say(row.number, short(l.tokens));
      set(row.line, "d", began ? stairs(moments, 0, from, to, x, (part) => row.top + 60 - 40 * part) : "");
      set(row.ok, "d", began ? marks(decisions, (d) => d.allowed, from, t, x, row.top + 71) : "");
      set(row.no, "d", began ? marks(decisions, (d) => !d.allowed, from, t, x, row.top + 83, true) : "");
      ["● ", `${count(stage, t, row.name, 200)} allowed  `, "✕ ", `${count(stage, t, row.name, 429)} denied`].forEach((text, i) => say(row.sum.children[i], began ? text : ""));
      let clocks = "";
      if (row.name === "aligned" && began) for (let at = Math.ceil(from / l.interval_ms) * l.interval_ms; at < from + axis.span; at += l.interval_ms) clocks += `M${x(at).toFixed(1)} ${row.top + 16}v48`;
      set(row.marks, "d", clocks);
    }
    return restOf(stage, t);
  };
  return high;
}

// 2: two replicas with one bucket in Redis, and two without.
function buildShare(svg, width, wide) {
  const c = chapters.share, room = wide ? width / 2 : width;
  const panels = [["", "With Redis: one bucket for both"], ["alone ", "Without: each its own bucket"]].map(([kind, title], i) => {
    const left = wide ? i * room : 0, top = wide ? 0 : i * 372, mid = left + room / 2, p = { kind };
    const half = Math.min(78, room / 4 - 8), sides = [mid - half - 4, mid + half + 4];
    svg.append(label(mid, top + 16, title, "middle strong"));
    for (const x of sides) svg.append(draw("path", { class: "wire", d: `M${mid} ${top + 64}L${x} ${top + 92}` }));
    svg.append(box(mid - 66, top + 32, 132, 32, "Load balancer"));
    const power = kind ? null : draw("g", { class: "redis" }, box(sides[0] - half, top + 196, 4 * half + 8, 120, "Redis"));
    if (power) {
      for (const x of sides) power.append(draw("path", { class: "wire", d: `M${x} ${top + 164}V${top + 196}L${mid - 24} ${top + 238}` }));
      p.shared = bucketIn(power, mid - 24, top + 306, 24);
      p.number = label(mid + 58, top + 300, "", "number small");
      power.append(p.number);
      svg.append(power);
    }
    p.replicas = ["A", "B"].map((name, j) => {
      const x = sides[j], r = { name: kind + name, x, sum: label(x, top + 132, "", "middle of"), no: label(x, top + 152, "", "middle of") };
      svg.append(box(x - half, top + 92, 2 * half, kind ? 224 : 72, `Replica ${name}`), r.sum, r.no);
      r.bucket = kind ? bucketIn(svg, x, top + 306, Math.min(22, (half - 8) / 2.8)) : p.shared;
      r.way = [[mid, top + 62], [mid, top + 64], [x, top + 92], [x, top + (kind ? 190 : 196)]];
      return r;
    });
    p.sum = label(mid, top + 352, "", "middle number small");
    svg.append(p.sum);
    return p;
  });
  c.pills = draw("g");
  svg.append(c.pills);
  c.frame = (t) => {
    const stage = stageOf("share");
    for (const p of panels) {
      const shared = p.shared && showBucket(p.shared, bucketsOf(stage, "A"), 0, t);
      if (shared) say(p.number, short(shared.tokens));
      for (const r of p.replicas) {
        if (!shared) showBucket(r.bucket, bucketsOf(stage, r.name), 0, t);
        const d = latest(stage.decisions.filter((d) => d.lane === r.name), t);
        say(r.sum, d ? `${count(stage, t, r.name, 200)} allowed` : "");
        say(r.no, d ? `${count(stage, t, r.name, 429)} denied` : "");
      }
      const lanes = p.replicas.map((r) => r.name), all = lanes.reduce((n, lane) => n + count(stage, t, lane, 200), 0);
      say(p.sum, stage.decisions.some((d) => d.show <= t) ? `${all} allowed` : "");
    }
    pills(c.pills, stage.decisions, t, (d) => {
      const r = panels.flatMap((p) => p.replicas).find((r) => r.name === d.lane), out = r && (r.x < r.way[0][0] ? -1 : 1);
      return r && { from: r.way[0], via: r.way.slice(1), to: [r.bucket.x, r.bucket.rim - 10], allowed: [r.x, r.way[2][1] + 30], denied: [r.x + out * 60, r.bucket.floor] };
    });
    return restOf(stage, t);
  };
  return wide ? 362 : 734;
}

// 3: what each policy does without Redis.
const without = { closed: "503: nothing is allowed", open: "everything is allowed", local: "at most twice the limit" };
const failures = { closed: "Fail closed", open: "Fail open", local: "Fail local, the default" };

function buildLose(svg, width, wide) {
  const c = chapters.lose, room = wide ? width / 3 : width, side = Math.min(70, room / 4);
  c.power = draw("g", { class: "redis" });
  c.pills = draw("g");
  svg.append(c.power);
  const boxes = wide ? [[4, 0]] : [0, 1, 2].map((i) => [4, i * 380]);
  c.names = boxes.map(([x, top]) => {
    const g = box(x, top + 6, width - 8, 140, "Redis");
    c.power.append(g, draw("path", { class: "cross", d: `M${x + 10} ${top + 16}L${x + width - 18} ${top + 136}M${x + 10} ${top + 136}L${x + width - 18} ${top + 16}` }));
    return g.lastChild;
  });
  c.columns = Object.keys(without).map((mode, i) => {
    const x = wide ? (i + 0.5) * room : width / 2, top = wide ? 0 : i * 380, col = { mode, x, shared: bucketIn(c.power, x, top + 136, Math.min(22, (side - 5) / 2.8)) };
    col.number = label(x + side + 6, top + 132, "", room < 240 ? "number tiny" : "number small");
    c.power.append(col.number);
    col.replicas = ["A", "B"].map((name, j) => {
      const at = x + (2 * j - 1) * side, r = { name: `${mode} ${name}`, x: at, top, g: box(at - side + 4, top + 188, 2 * side - 8, 104, `${name}`), own: null };
      r.own = bucketIn(r.g, at, top + 282, Math.min(16, (side - 12) / 2.8));
      set(r.own.el, "class", "bucket half");
      set(r.own.el, "visibility", "hidden"); // until a frame knows better
      r.word = label(at, top + 254, "", "middle strong");
      r.g.append(r.word);
      svg.append(draw("path", { class: "wire", d: `M${at} ${top + 188}V${top + 64}H${x}V${top + 82}` }), r.g);
      return r;
    });
    col.sum = label(x, top + 336, "", "middle of");
    col.says = label(x, top + 356, "", "middle strong");
    svg.append(label(x, top + 314, failures[mode], "middle strong"), col.sum, col.says);
    return col;
  });
  svg.append(c.pills);
  c.frame = (now) => {
    const stage = stageOf("lose"), played = stage.run.script === "play" && !stage.run.running && stage.decisions.findLast((d) => d.run === "outage");
    const t = played ? Math.min(now, played.show + 1) : now; // the outage's last frame stays
    const upTo = (list) => played ? list.filter((m) => m.show <= t) : list;
    let off = false;
    for (const col of c.columns) {
      const states = col.replicas.map((r) => latest(bucketsOf(stage, r.name), t)), alone = states.map((m) => m && m.source !== "store" && m.source !== "deny-cache");
      const gone = alone.some(Boolean);
      off ||= gone;
      const shared = upTo(bucketsOf(stage, col.replicas[0].name)).filter((m) => m.source === "store" || m.source === "deny-cache");
      const l = showBucket(col.shared, shared, 0, t);
      say(col.number, l && !gone ? short(l.tokens) : gone ? "?" : "");
      col.replicas.forEach((r, j) => {
        const local = col.mode === "local" && alone[j] && states[j].limits.length > 0;
        set(r.own.el, "visibility", local ? null : "hidden");
        if (local) showBucket(r.own, upTo(bucketsOf(stage, r.name)), 0, t);
        merge(r, col, bucketsOf(stage, r.name), t, local);
        say(r.word, alone[j] && !local ? { closed: "503", open: "200" }[col.mode] ?? "" : "");
      });
      say(col.sum, [[200, "allowed"], [429, "denied"], [503, "failed"]].map(([status, word]) => [count(stage, t, `${col.mode} `, status, "outage"), word]).filter(([n]) => n > 0).map((part) => part.join(" ")).join(", "));
      say(col.says, gone ? without[col.mode] : "");
    }
    c.power.classList.toggle("off", off);
    for (const name of c.names) say(name, off ? played ? "While Redis was off" : "Redis is off" : "Redis");
    pills(c.pills, stage.decisions, now, (d) => {
      const col = c.columns.find((k) => d.lane?.startsWith(k.mode)), r = col?.replicas.find((k) => k.name === d.lane);
      if (!r) return null;
      const shared = d.status !== 503 && (d.source === "store" || d.source === "deny-cache");
      return { from: [r.x, r.top + 296], via: shared ? [[r.x, r.top + 188], [r.x, r.top + 64]] : undefined, to: shared ? [col.x, r.top + 64] : [r.x, r.top + 226], allowed: [r.x, r.top + 176], denied: [r.x + side - 20, r.top + 300] };
    });
    return restOf(stage, now);
  };
  return wide ? 366 : 1126;
}

// merge has the bucket of a replica alone go back into the one in Redis.
function merge(replica, col, moments, t, alone) {
  const last = moments.findLastIndex((m) => m.show <= t && m.source === "fallback"), back = moments[last + 1];
  const p = alone || calm.matches || last < 0 || !back || back.show > t ? 0 : (t - back.show) / 700;
  const on = p > 0 && p < 1;
  if (on) showBucket(replica.own, moments.slice(0, last + 1), 0, t);
  if (on) set(replica.own.el, "visibility", null);
  set(replica.own.el, "transform", on ? `translate(${((col.x - replica.x) * p).toFixed(1)} ${(-150 * p).toFixed(1)})` : null);
  set(replica.own.el, "opacity", on ? (1 - p * p).toFixed(2) : null);
}

function hearRedis({ up, text }) {
  set($("redis"), "aria-checked", String(up));
  say($("redis-says"), up ? `on: ${text}` : "off: two local buckets allow at most twice the limit");
}
