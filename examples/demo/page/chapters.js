// The chapters: each has one button, and a picture whose last frame stays.

const chapters = { modes: {}, share: {}, lose: {} };
const modeNames = { continuous: "little by little", stepped: "all when five seconds are over", aligned: "all when the clock strikes" };

function buildChapters() {
  buildModes($("f-modes"));
  buildShare($("f-share"));
  buildLose($("f-lose"));
  for (const button of document.querySelectorAll("[data-play]")) {
    const id = button.dataset.play, script = button.dataset.script ?? "play";
    button.addEventListener("click", () => {
      const stage = stageOf(id);
      if (stage.run.running && stage.run.script === script) return ask("DELETE", `/api/run/${id}`);
      const typed = { burst: "n", steady: "per" }[script];
      if (typed && !$(typed).reportValidity()) return;
      play(id, script, { n: Number($("n").value), rate: Number($("per").value), seconds: 10, user: $("user").value, framework: $("framework").value });
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
    if (stage.run === run && el && (run.text || run.running)) say(el, run.text);
    if (run.text && !past && run.script !== "fill") tellAloud(run.text);
  };
  if (past || run.running) show(); else setTimeout(show, Math.max(delay, Math.max(0, ...Object.values(stage.last)) - now()));
}

// A box of a picture, with a name.
const box = (x, y, width, height, name, kind = "box") => draw("g", { class: kind }, draw("rect", { x, y, width, height, rx: 10 }), label(x + width / 2, y + 19, name, "middle strong"));
const bucketsOf = (stage, lane) => [...stage.buckets].find(([id]) => id.startsWith(`${lane}/`))?.[1] ?? [];
const count = (stage, t, lane, status) => stage.decisions.filter((d) => d.show <= t && (d.lane ?? "").startsWith(lane) && (d.status === 200 || d.status === 429 ? d.status === status : status === 503)).length;

// 1: three buckets on one time axis.
const axis = { left: 250, right: 806, span: 16e3 };

function buildModes(svg) {
  chapters.modes.rows = Object.entries(modeNames).map(([name, how], i) => {
    const top = 8 + i * 102, row = { name, top };
    row.bucket = bucketIn(svg, 70, top + 78, 22);
    row.number = label(140, top + 74, "", "number small");
    row.line = draw("path", { class: "left" });
    row.ok = draw("path", { class: "ok dots" });
    row.no = draw("path", { class: "no crosses" });
    row.marks = draw("path", { class: "clock" });
    row.sum = label(axis.right, top + 10, "", "end of");
    svg.append(draw("text", { x: 4, y: top + 10 }, draw("tspan", { class: "strong" }, capital(name)), draw("tspan", { class: "of", dx: 8 }, how)), row.number, draw("path", { class: "base", d: `M${axis.left} ${top + 62}H${axis.right}` }), row.marks, row.line, row.ok, row.no, row.sum);
    return row;
  });
  for (let s = 0; s <= 15; s += 5) svg.append(label(axis.left + (axis.right - axis.left) * s * 1000 / axis.span, 326, `${s} s`, "of middle"));
  frames.push((t) => {
    const stage = stageOf("modes"), from = stage.began ?? stage.decisions[0]?.show ?? t, to = Math.min(t, from + axis.span);
    const x = (at) => axis.left + (axis.right - axis.left) * (at - from) / axis.span, began = stage.decisions.length > 0 && from <= t;
    for (const row of chapters.modes.rows) {
      const moments = bucketsOf(stage, row.name), l = showBucket(row.bucket, moments, 0, t), decisions = stage.decisions.filter((d) => d.lane === row.name);
      if (!l) continue;
      say(row.number, short(l.tokens));
      set(row.line, "d", began ? stairs(moments, 0, from, to, x, (part) => row.top + 60 - 40 * part) : "");
      set(row.ok, "d", began ? marks(decisions, (d) => d.allowed, from, to, x, row.top + 70) : "");
      set(row.no, "d", began ? marks(decisions, (d) => !d.allowed, from, to, x, row.top + 82, true) : "");
      say(row.sum, began ? `${count(stage, t, row.name, 200)} passed, ${count(stage, t, row.name, 429)} refused` : "");
      let clocks = "";
      if (row.name === "aligned" && began) for (let at = Math.ceil(from / l.interval_ms) * l.interval_ms; at < from + axis.span; at += l.interval_ms) clocks += `M${x(at).toFixed(1)} ${row.top + 16}v48`;
      set(row.marks, "d", clocks);
    }
    return restOf(stage, t);
  });
}

// 2: two replicas, one bucket in Redis.
function buildShare(svg) {
  const c = chapters.share;
  c.power = draw("g", { class: "redis" }, box(520, 66, 280, 196, "Redis"));
  c.bucket = bucketIn(c.power, 640, 236, 34);
  c.number = label(744, 200, "", "number small");
  c.of = label(744, 222, "", "of");
  c.power.append(c.number, c.of);
  c.pills = draw("g");
  svg.append(draw("path", { class: "wire", d: "M92 165H150M250 165C285 165 280 85 312 85M250 165C285 165 280 245 312 245M468 85C505 85 495 150 520 150M468 245C505 245 495 180 520 180" }),
    label(10, 170, "requests", "strong"), box(150, 132, 100, 66, "Load"), label(200, 176, "balancer", "middle strong"), c.power);
  c.replicas = ["A", "B"].map((name, i) => {
    const y = 40 + i * 160, r = { name, y, by: label(390, y + 52, "", "middle of"), sum: label(390, y + 76, "", "middle of") };
    svg.append(box(312, y, 156, 90, `Replica ${name}`), r.by, r.sum);
    return r;
  });
  svg.append(c.pills);
  frames.push((t) => {
    const stage = stageOf("share"), l = showBucket(c.bucket, bucketsOf(stage, "A"), 0, t);
    if (!l) return 1000;
    say(c.number, short(l.tokens));
    say(c.of, "left");
    for (const r of c.replicas) {
      const d = latest(stage.decisions.filter((d) => d.lane === r.name), t);
      say(r.by, d ? nameOf(d.framework) : "five frameworks");
      say(r.sum, d ? `${count(stage, t, r.name, 200)} passed, ${count(stage, t, r.name, 429)} refused` : "");
    }
    pills(c.pills, stage.decisions, t, (d) => {
      const y = d.lane === "A" ? 85 : 245;
      return { from: [80, 165], via: [[200, 165], [312, y], [468, y]], to: [c.bucket.x, c.bucket.rim - 14], passed: [460, y - 60], refused: [440, y + 70] };
    });
    return restOf(stage, t);
  });
}

// 3: what each policy does without Redis.
const without = { closed: "503: nobody passes", open: "everybody passes", local: "together up to 20, not 10" };

function buildLose(svg) {
  const c = chapters.lose;
  c.power = draw("g", { class: "redis" }, box(10, 6, 800, 140, "Redis"));
  c.pills = draw("g");
  svg.append(c.power);
  c.columns = Object.keys(without).map((mode, i) => {
    const x = 140 + i * 270, col = { mode, x, shared: bucketIn(c.power, x, 132, 22) };
    col.number = label(x + 72, 126, "", "number small");
    c.power.append(col.number);
    col.replicas = ["A", "B"].map((name, j) => {
      const at = x - 62 + j * 124, r = { name: `${mode} ${name}`, x: at, g: box(at - 56, 188, 112, 104, `${name}`), own: null };
      r.own = bucketIn(r.g, at, 282, 16);
      set(r.own.el, "class", "bucket half");
      set(r.own.el, "visibility", "hidden"); // until a frame knows better
      r.word = label(at, 254, "", "middle strong");
      r.g.append(r.word);
      svg.append(draw("path", { class: "wire", d: `M${at} 188V146` }), r.g);
      return r;
    });
    col.sum = label(x, 336, "", "middle of");
    col.says = label(x, 355, "", "middle strong");
    svg.append(label(x, 314, `Fail ${mode === "local" ? "local: each its own" : mode}`, "middle strong"), col.sum, col.says);
    return col;
  });
  svg.append(c.pills);
  frames.push((t) => {
    const stage = stageOf("lose");
    let off = false;
    for (const col of c.columns) {
      const states = col.replicas.map((r) => latest(bucketsOf(stage, r.name), t)), alone = states.map((m) => m && m.source !== "store" && m.source !== "deny-cache");
      const gone = alone.some(Boolean);
      off ||= gone;
      const shared = bucketsOf(stage, col.replicas[0].name).filter((m) => m.source === "store" || m.source === "deny-cache");
      const l = showBucket(col.shared, shared, 0, t);
      say(col.number, l && !gone ? short(l.tokens) : gone ? "?" : "");
      col.replicas.forEach((r, j) => {
        const local = col.mode === "local" && alone[j] && states[j].limits.length > 0;
        set(r.own.el, "visibility", local ? null : "hidden");
        if (local) showBucket(r.own, bucketsOf(stage, r.name), 0, t);
        merge(r, col, bucketsOf(stage, r.name), t, local);
        say(r.word, alone[j] && !local ? { closed: "503", open: "200" }[col.mode] ?? "" : "");
      });
      const d = stage.decisions.some((d) => d.show <= t);
      say(col.sum, d ? `${count(stage, t, `${col.mode} `, 200)} passed, ${count(stage, t, `${col.mode} `, 429)} refused, ${count(stage, t, `${col.mode} `, 503)} failed` : "");
      say(col.says, gone || stage.run.text && stage.run.script === "play" ? without[col.mode] : "");
    }
    c.power.classList.toggle("off", off);
    pills(c.pills, stage.decisions, t, (d) => {
      const col = c.columns.find((k) => d.lane?.startsWith(k.mode)), r = col?.replicas.find((k) => k.name === d.lane);
      if (!r) return null;
      const shared = d.status !== 503 && (d.source === "store" || d.source === "deny-cache"), up = shared ? [col.x, col.shared.rim - 8] : [r.x, 226];
      return { from: [r.x, 296], via: shared ? [[r.x, 190]] : undefined, to: up, passed: shared ? [r.x + 40, 170] : [r.x, 170], refused: [r.x + 44, 300] };
    });
    return restOf(stage, t);
  });
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
  say($("redis-says"), up ? `on: ${text}` : "off: together the two may admit up to 20, not 10");
}
