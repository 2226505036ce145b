// Numbers that are turned: by dragging, with the arrow keys, or by typing. Each is a slider for a screen reader.

const turned = { fields: {}, sent: {}, timer: 0 };

// change sends a setting of the first picture. While something is dragged, or the demo has not answered, only the latest value counts: two
// requests under way could arrive in another order. What the demo refuses is turned back, and it says why.
function change(field, value) {
  turned.fields[field] = value;
  showSentence();
  turned.timer ||= setTimeout(sendTurned, 120);
}

async function sendTurned() {
  const stage = stageOf("drain");
  turned.sent = turned.fields;
  turned.fields = {};
  const got = await ask("POST", "/api/settings/drain", turned.sent);
  turned.sent = {};
  turned.timer = Object.keys(turned.fields).length > 0 ? setTimeout(sendTurned, 0) : 0;
  if (got?.ok) stage.settings = got.data;
  else if (got) say($("v-drain"), Object.entries(got.data).map(([name, text]) => `${knobs[name]?.name ?? name} ${text}.`).join(" "));
  showSentence();
}

const knobs = {
  capacity: { name: "Capacity", list: [...Array.from({ length: 30 }, (_, i) => i + 1), 40, 50, 60, 80, 100, 200, 500, 1000], text: (v) => plural(v, "token"), typed: (v) => Math.round(Math.min(1e6, Math.max(1, v))) },
  cost: { name: "Cost of a request", list: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], text: (v) => plural(v, "token"), typed: (v) => Math.round(Math.min(1e6, Math.max(0, v))) },
  rate: { name: "Tokens that come back", list: [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100], text: (v) => plural(v, "token"), typed: (v) => Math.min(1e6, Math.max(0.001, v)) },
  interval_ms: { name: "Time in which they come back", list: [500, 1000, 2000, 5000, 10e3, 30e3, 60e3, 3600e3], text: (v) => duration(v), typed: (v) => Math.min(3600, Math.max(0.01, v)) * 1000 },
};

const valueOf = (field) => turned.fields[field] ?? turned.sent[field] ?? stageOf("drain").settings?.[field] ?? { capacity: 10, cost: 1, rate: 1, interval_ms: 1000 }[field];

// step is the value so many places further in the list.
function step(field, from, by) {
  const list = knobs[field].list;
  let i = list.findIndex((v) => v >= from);
  if (i < 0) i = list.length - 1;
  if (by < 0 && list[i] > from) by++;
  return list[Math.min(list.length - 1, Math.max(0, i + by))];
}

// knob has an element turn a field. moved tells from how far the pointer came what the value is.
function knob(el, field, name = knobs[field].name, moved = (start, dx, dy) => step(field, start, Math.round((dx - dy) / 12))) {
  let start = null, typed = "", forget = 0;
  for (const [attribute, value] of Object.entries({ role: "slider", tabindex: 0, "aria-label": name, "aria-valuemin": 0, class: `${el.getAttribute("class") ?? ""} knob` })) set(el, attribute, value);
  const keys = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5, Home: -99, End: 99 };
  el.addEventListener("pointerdown", (e) => { if (e.button === 0) { el.setPointerCapture(e.pointerId); start = { x: e.clientX, y: e.clientY, value: valueOf(field) }; el.focus(); e.preventDefault(); } });
  el.addEventListener("pointermove", (e) => {
    if (!start) return;
    const value = moved(start.value, e.clientX - start.x, e.clientY - start.y);
    if (value !== valueOf(field)) change(field, value);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) el.addEventListener(end, () => { start = null; });
  el.addEventListener("keydown", (e) => {
    if (keys[e.key]) change(field, step(field, valueOf(field), keys[e.key]));
    else if (/^[0-9.]$/.test(e.key) && !e.ctrlKey && !e.metaKey && !e.altKey) {
      typed += e.key;
      clearTimeout(forget);
      forget = setTimeout(() => { typed = ""; }, 1500);
      if (Number(typed) > 0) change(field, knobs[field].typed(Number(typed)));
    } else return;
    e.preventDefault();
  });
}

// turn shows a value on all that turn it.
function showKnobs() {
  for (const el of document.querySelectorAll("[data-field]")) {
    const field = el.dataset.field, value = valueOf(field);
    set(el, "aria-valuenow", value);
    set(el, "aria-valuemax", Math.max(value, knobs[field].list.at(-1)));
    set(el, "aria-valuetext", knobs[field].text(value));
  }
}
