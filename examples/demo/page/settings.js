// The limits' form.
import { $, setAttr, setText } from "./dom.js";
import { away } from "./notes.js";
import { waits } from "./scenarios.js";
import { view } from "./view.js";
import { duration, plural, rule } from "./words.js";
import { wake } from "./frames.js";
import { showCode } from "./code.js";

const form = { dirty: false, base: "" }; // base is what was in force before something was typed
const fieldNames = ["capacity", "rate", "interval_ms", "mode", "cost", "second.on", "second.capacity", "second.rate", "second.interval_ms", "second.mode", "second.unit", "second.cost", "headers", "key"];
const words = new Set(["mode", "second.mode", "second.unit", "headers", "key"]);
const field = (name) => $("settings").elements.namedItem(name);
const messageOf = (name) => $(`err-${name.replace(".", "-")}`);

export function fillForm(s) {
  for (const name of fieldNames) {
    const value = name.startsWith("second.") ? s.second[name.slice(7)] : s[name];
    if (name === "second.on") field(name).checked = value; else field(name).value = String(value);
  }
  form.dirty = false;
  form.base = JSON.stringify(s);
  showElsewhere(s);
  showMeaning();
}

// showElsewhere tells of limits in force that are no longer those someone began to change.
function showElsewhere(s) {
  const on = form.dirty && form.base !== JSON.stringify(s);
  if (!on && $("elsewhere").contains(document.activeElement)) $("apply").focus();
  $("elsewhere").hidden = !on;
}

// showMeaning shows what was typed in other words.
function showMeaning() {
  $("second").hidden = !field("second.on").checked;
  for (const name of ["interval_ms", "second.interval_ms"]) {
    const ms = number(field(name).value.trim());
    setText($(`means-${name.replace(".", "-")}`), ms >= 1 && ms <= 31536e6 ? `= ${duration(ms)}` : "");
  }
}

const number = (typed) => (/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) && Number.isFinite(Number(typed)) ? Number(typed) : NaN);

// readForm takes what was typed; what is no number goes as it is, for the server to answer.
function readForm() {
  const s = { second: { on: field("second.on").checked } };
  for (const name of fieldNames) {
    if (name === "second.on") continue;
    const typed = field(name).value.trim(), n = number(typed), value = words.has(name) || Number.isNaN(n) ? typed : n;
    if (name.startsWith("second.")) s.second[name.slice(7)] = value; else s[name] = value;
  }
  return s;
}

function showErrors(errors) {
  const rest = [];
  for (const name of fieldNames) {
    if (name === "second.on") continue;
    setText(messageOf(name), errors[name] ?? "");
    if (errors[name]) setAttr(field(name), "aria-invalid", "true"); else field(name).removeAttribute("aria-invalid");
  }
  for (const [name, text] of Object.entries(errors)) if (name === "" || !messageOf(name)) rest.push(name ? `${name}: ${text}` : text);
  setText($("err-form"), rest.join("; "));
  $("settings").querySelector("[aria-invalid=true]")?.focus();
}

export const busy = "A scenario runs with limits of its own: apply yours when it is over.";

// apply puts settings in force.
export async function apply(s) {
  setText($("settings-note"), "");
  if (waits()) return showErrors({ "": busy });
  let response, answer;
  try {
    response = await fetch("/api/settings", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(s) });
    answer = await response.json();
  } catch {
    return showErrors({ "": `${away} Nothing has changed.` });
  }
  if (response.status === 409) return showErrors({ "": busy });
  if (!response.ok) return showErrors(answer.errors ?? { "": answer.error ?? `The server answered ${response.status}.` });
  showErrors({});
  fillForm(answer);
  if (!waits()) hearSettings(answer);
  setText($("settings-note"), "In force for all frameworks.");
}

// hearSettings shows what is in force; what someone is typing stays, and a scenario's limits are not for the form.
export function hearSettings(s) {
  const before = JSON.stringify(view.settings);
  view.settings = s;
  if (before === JSON.stringify(s)) return;
  view.denied = null; // it was denied by another limit
  if (!waits()) takeOwn(s);
  const each = { client: "one bucket for everybody", user: "a bucket for each user", ip: "a bucket for each IP address" }[s.key];
  const more = s.second.on && s.second.unit ? ` and ${plural(s.second.cost, s.second.unit.replace(/s$/, ""))}` : "";
  setText($("in-force"), `${rule(s)}, ${each}; a request costs ${plural(s.cost, "token")}${more}.`);
  wake();
}

// takeOwn has the form show the settings of everybody's.
export function takeOwn(s) {
  if (form.dirty) showElsewhere(s); else if (form.base !== JSON.stringify(s)) fillForm(s);
  showCode(s);
}

export function wireSettings() {
  const el = $("settings");
  el.addEventListener("submit", (e) => { e.preventDefault(); apply(readForm()); });
  el.addEventListener("input", () => { form.dirty = true; setText($("settings-note"), ""); showMeaning(); });
  $("load").addEventListener("click", () => { showErrors({}); fillForm(view.settings); field("capacity").focus(); });
}
