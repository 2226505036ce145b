// Chapter 4: every setting, as numbers to type. What is changed holds at once.

const refillModes = { continuous: "continuous", stepped: "stepped", aligned: "aligned" };
const settingFields = [
  ["First limit", [["capacity", "Capacity, tokens"], ["rate", "Refill, tokens"], ["interval_ms", "Every"], ["mode", "Refill mode", refillModes], ["cost", "Cost of a request"]]],
  ["Second limit", [["second.on", "A second limit"], ["second.capacity", "Second capacity"], ["second.rate", "Second refill"], ["second.interval_ms", "Second every"], ["second.mode", "Second mode", refillModes],
    ["second.unit", "Unit it counts"], ["second.cost", "Units charged"], ["second.used", "Units used at last"]]],
  ["Who and how", [["key", "A bucket for", { client: "everybody", user: "each user", ip: "each IP" }], ["plan", "Bob’s plan, times"], ["slots", "In flight, at most"], ["takes_ms", "Each takes, ms"], ["headers", "Header style", { default: "default", legacy: "legacy", draft8: "Draft8", draft6: "draft 6", none: "none" }]]],
];
const words = new Set(["mode", "second.mode", "second.unit", "key", "headers"]);
const yours = { presets: new Map() };

function buildYours() {
  for (const [title, list] of settingFields) {
    const fields = list.map(([name, text, options]) => {
      const id = `s-${name.replace(".", "-")}`, error = make("p", { class: "message", id: `e-${id}` });
      const input = options ? make("select", { id }, ...Object.entries(options).map(([value, shown]) => make("option", { value }, shown)))
        : name === "second.on" ? make("input", { id, type: "checkbox" }) : make("input", { id, inputmode: words.has(name) || name.endsWith("interval_ms") ? "text" : "decimal", placeholder: name === "second.unit" ? "requests" : undefined, spellcheck: "false" });
      set(input, "name", name);
      set(input, "aria-describedby", error.id);
      return make("div", { class: name.startsWith("second.") && name !== "second.on" ? "second" : "" }, make("label", { for: id }, text), input, error);
    });
    $("settings").append(make("fieldset", {}, make("legend", {}, title), ...fields));
  }
  let later = 0;
  $("settings").addEventListener("submit", (e) => e.preventDefault());
  $("settings").addEventListener("input", (e) => { clearTimeout(later); yours.typed = e.target.name; later = setTimeout(() => changeSetting(e.target), 350); });
  $("settings").addEventListener("focusout", () => { if (yours.heard) showSettings(yours.heard.settings, (el) => el.getAttribute("aria-invalid")); });
  $("copy-yours").addEventListener("click", () => copy(programs.yours?.program, $("copy-yours")));
  frames.push(drawYours);
}

const fieldOf = (name) => $("settings").elements.namedItem(name);

async function changeSetting(el) {
  const name = el.name, typed = el.type === "checkbox" ? el.checked : name.endsWith("interval_ms") ? intervalOf(el.value) : words.has(name) || el.value.trim() === "" || Number.isNaN(Number(el.value)) ? el.value : Number(el.value);
  const body = name.startsWith("second.") ? { second: { [name.slice(7)]: typed } } : { [name]: typed };
  yours.typed = "";
  const got = await ask("POST", "/api/settings/yours", body);
  for (const p of $("settings").querySelectorAll(".message")) say(p, "");
  for (const e of $("settings").querySelectorAll("[aria-invalid]")) e.removeAttribute("aria-invalid");
  if (got?.ok) return;
  for (const [field, text] of Object.entries(got?.data ?? { [name]: "The demo does not answer: nothing has changed." })) {
    const input = fieldOf(field) ?? el;
    set(input, "aria-invalid", "true");
    say($(`e-${input.id}`), text);
  }
}

// intervalOf reads 5 s, 15 minutes or month, in ms; what it can't read it returns, for the server to answer.
function intervalOf(text) {
  const [, n, word] = text.trim().toLowerCase().match(/^([\d.]*)\s*([a-z]*)$/) ?? [];
  const unit = word === "ms" ? [1] : word === "m" ? [60e3] : units.find(([, name]) => name.startsWith((word || "second").replace(/s$/, "") || "s"));
  return unit && n + word !== "" && !Number.isNaN(Number(n)) ? (n === "" ? 1 : Number(n)) * unit[0] : text;
}

// hearSettings shows what is in force. A field that someone is typing in keeps what was typed.
function hearSettings({ stage, settings }) {
  if (stageOf(stage).settings?.key !== settings.key && yours.heard) stageOf(stage).keys.clear();
  stageOf(stage).settings = settings;
  if (stage === "drain") {
    if (!turned.timer) showSentence();
    showCode();
    return wake();
  }
  yours.heard = { stage, settings };
  showSettings(settings, () => false);
  $("settings").classList.toggle("two", settings.second.on);
  const mine = yours.presets.get(JSON.stringify(settings));
  if (mine && $("asks").textContent !== mine.asks) choose(mine);
  for (const b of $("presets").querySelectorAll("button")) set(b, "aria-pressed", String(b.dataset.settings === JSON.stringify(settings)));
  showCode("yours");
  wake();
}

// showSettings puts what is in force into the fields, but those that someone types in, or that are kept. A field that is right has no
// message.
function showSettings(settings, keep) {
  for (const el of $("settings").elements) {
    if (!el.name || el === document.activeElement || el.name === yours.typed || keep(el)) continue;
    el.removeAttribute("aria-invalid");
    say($(`e-${el.id}`), "");
    const value = el.name.startsWith("second.") ? settings.second[el.name.slice(7)] : settings[el.name];
    if (el.type === "checkbox") el.checked = value; else el.value = el.name.endsWith("interval_ms") ? duration(value).replace(/^(?=\D)/, "1 ") : value;
  }
}

// choose has the chapter ask a preset's question, and its button answer it.
function choose(p) {
  const button = $("play-yours");
  say($("preset-says"), p.text);
  say($("asks"), p.asks);
  button.dataset.script = p.script;
  button.dataset.n = p.n ?? "";
  if (button.textContent === button.dataset.name) say(button, p.does);
  button.dataset.name = p.does;
}

function buildPresets(list) {
  $("presets").replaceChildren(...list.map((p) => {
    const button = make("button", { type: "button", class: "quiet", "aria-pressed": "false" }, p.title);
    button.dataset.settings = JSON.stringify(p.settings);
    button.addEventListener("click", () => { choose(p); say($("v-yours"), ""); ask("POST", "/api/settings/yours", p.settings).then(() => ask("POST", "/api/run/yours/fill", {})); });
    yours.presets.set(button.dataset.settings, p);
    return make("li", {}, button);
  }));
}

// drawYours draws a bucket for each user and limit, and slots as a row of discs.
function drawYours(t) {
  const stage = stageOf("yours"), shown = inUse(stage).filter(([, moments]) => latest(moments, t)).slice(0, 6), svg = $("f-yours"), width = Math.max(260, svg.clientWidth);
  const looks = JSON.stringify(shown.map(([id, moments]) => [id, latest(moments, t).limits.map((l) => [l.name, l.capacity, l.unit])]));
  if (looks !== yours.looks) {
    yours.looks = looks;
    svg.replaceChildren();
    yours.parts = [];
    const n = shown.reduce((n, [, moments]) => n + latest(moments, t).limits.length, 0), row = Math.max(1, Math.min(n, Math.floor(width / 130))), room = width / row, high = 282;
    let k = 0;
    for (const [id, moments] of shown) {
      const m = latest(moments, t), who = m.key.startsWith("header") ? m.user : m.key.startsWith("ip") ? m.key.replace("ip:", "IP ") : "everybody";
      m.limits.forEach((l, i) => {
        const g = draw("g"), x = (k % row + 0.5) * room, top = Math.floor(k++ / row) * high, b = bucketIn(g, x, top + 166, Math.min(34, room / 6.4), top + 20);
        const p = { id, i, b, number: label(x, top + 204, "", "number small middle"), of: label(x, top + 224, "", "of middle"), rate: label(x, top + 242, "", "of middle") };
        svg.append(g, p.number, p.of, p.rate, label(x, top + 266, capital(who), "strong middle"));
        yours.parts.push(p);
      });
    }
    set(svg, "viewBox", `0 0 ${width} ${high * Math.max(1, Math.ceil(n / row))}`);
    yours.pills = draw("g");
    svg.append(yours.pills);
  }
  for (const p of yours.parts ?? []) {
    const l = showBucket(p.b, stage.buckets.get(p.id) ?? [], p.i, t);
    if (!l) continue;
    const slots = l.mode === "concurrent";
    say(p.number, short(l.tokens));
    say(p.of, slots ? `of ${l.capacity} slots free` : `of ${short(l.capacity)} ${l.unit || "requests"} left`);
    say(p.rate, slots ? "" : `${short(l.rate)} each ${duration(l.interval_ms)}`);
  }
  if (yours.pills) pills(yours.pills, stage.decisions, t, (d) => {
    const b = yours.parts.find((p) => p.id === `${d.lane ?? ""}/${d.key}`)?.b;
    return b && { from: [b.x - 30, b.rim - 100], to: [b.x, b.rim - 10], allowed: [b.x + b.half + 14, b.floor], denied: [b.x - b.half - 16, b.floor] };
  });
  return restOf(stage, t);
}
