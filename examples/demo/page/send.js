// Sending requests: one, many at once, steadily, or as fast as it goes.
import { showAnswer, tally } from "./answer.js";
import { $, setAttr, setText } from "./dom.js";
import { away, note, post } from "./notes.js";
import { waits } from "./scenarios.js";
import { view } from "./view.js";
import { nameOf } from "./words.js";

const sender = { turn: 0, flying: 0, steady: null, flood: false };

function nextFramework() {
  const chosen = $("framework").value;
  return chosen === "rotate" ? view.frameworks[sender.turn++ % view.frameworks.length] : chosen;
}

export const sendsSteadily = () => sender.steady !== null;

// sendOne sends a real request; what came of it in the bucket is told by the events.
async function sendOne(told = () => {}) {
  if (waits()) return false;
  sender.flying++;
  try {
    const framework = nextFramework(), response = await fetch(`/${framework}/limited`, { headers: { "X-User": $("user").value }, cache: "no-store" });
    await response.arrayBuffer();
    note("send", "");
    if (response.status === 409) return false; // a scenario began meanwhile
    showAnswer(response, nameOf(framework));
    told(response);
    return true;
  } catch {
    stopSending("the server can’t be reached.");
    note("send", away);
    return false;
  } finally {
    sender.flying--;
  }
}

// readNumber is what a field of the page's own holds, or null.
function readNumber(input) {
  const n = Number(input.value), whole = input.step !== "any";
  return input.value !== "" && n >= Number(input.min) && n <= Number(input.max) && (!whole || Number.isInteger(n)) ? n : null;
}

// numberIn reads a field of the page's own, and says beside it when it is wrong.
function numberIn(input) {
  const n = readNumber(input);
  if (n !== null) input.removeAttribute("aria-invalid"); else input.setAttribute("aria-invalid", "true");
  setText($(`err-${input.id}`), n !== null ? "" : `Must be a${input.step !== "any" ? " whole" : ""} number from ${input.min} to ${input.max}.`);
  return n;
}

function sendBurst() {
  const n = numberIn($("burst-n")), told = tally("said-burst");
  if (n !== null && !waits()) setText($("said-burst"), "");
  if (!waits()) for (let i = 0; i < (n ?? 0); i++) sendOne(told);
}

// toggleSteady sends what is due every 20 ms, so that the rate holds where timers are coarse.
function toggleSteady() {
  if (sender.steady) return stopSteady();
  let rate = numberIn($("steady-rate"));
  if (rate === null || waits()) return;
  const told = tally("said-steady");
  let due = 1, before = performance.now();
  setText($("said-steady"), "");
  setText($("why-steady"), "");
  sender.steady = setInterval(() => {
    const now = performance.now();
    rate = readNumber($("steady-rate")) ?? rate;
    due = waits() ? 0 : Math.min(due + (now - before) / 1000 * rate, 20);
    before = now;
    for (; due >= 1 && sender.flying < 60; due--) sendOne(told);
  }, 20);
  setAttr($("steady"), "aria-pressed", "true");
}

// stopSteady stops, and says why if nobody asked for it.
function stopSteady(why = "") {
  if (sender.steady) setText($("why-steady"), why && `Stopped: ${why}`);
  clearInterval(sender.steady);
  sender.steady = null;
  setAttr($("steady"), "aria-pressed", "false");
}

// startFlood keeps four requests under way: browsers open six connections, and the events need one.
function startFlood() {
  if (sender.flood || waits()) return;
  sender.flood = true;
  $("flood").classList.add("held");
  setText($("flood"), "Flooding…");
  const told = tally("said-flood"), keepSending = async () => { while (sender.flood && await sendOne(told)); stopFlood(); };
  for (let i = 0; i < 4; i++) keepSending();
}

export function stopFlood() {
  sender.flood = false;
  $("flood").classList.remove("held");
  setText($("flood"), "Hold to flood");
}

// stopSending stops what sends by itself, because of something that nobody clicked.
export function stopSending(why) { stopSteady(why); stopFlood(); }

export function wireSending() {
  $("send").addEventListener("click", () => sendOne());
  $("burst").addEventListener("click", sendBurst);
  $("steady").addEventListener("click", toggleSteady);
  const flood = $("flood"), holds = (e) => e.key === " " || e.key === "Enter";
  flood.addEventListener("pointerdown", (e) => { if (e.button === 0) { flood.setPointerCapture(e.pointerId); startFlood(); } });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture", "blur"]) flood.addEventListener(end, stopFlood);
  flood.addEventListener("keydown", (e) => { if (holds(e)) { e.preventDefault(); startFlood(); } });
  flood.addEventListener("keyup", (e) => { if (holds(e)) stopFlood(); });
  flood.addEventListener("contextmenu", (e) => e.preventDefault());
  $("reset").addEventListener("click", async () => { if (!waits()) note("reset", await post("/api/reset")); });
  // A field that is wrong says so while it is corrected; a rate in use also when it becomes wrong.
  for (const id of ["burst-n", "steady-rate"]) {
    $(id).addEventListener("input", () => { if ($(id).hasAttribute("aria-invalid") || id === "steady-rate" && sender.steady) numberIn($(id)); });
  }
}
