// The list of requests. It has two tab stops, however long it is: the list itself, and one of its rows, which the arrow
// keys move through.
import { $, make, setAttr, setText } from "./dom.js";
import { onFrame, wake } from "./frames.js";
import { kindOf, view } from "./view.js";
import { clockTime, micros, nameOf, plural } from "./words.js";

const most = 200; // rows
const log = { pending: [], drawn: 0, held: false, back: 0, flood: false };

// list takes the requests that are new.
export function list(fresh, flood) {
  log.pending = log.pending.concat(fresh).slice(-most);
  log.flood ||= flood;
  if (log.held) log.back += fresh.length;
  note();
  wake();
}

function note() {
  const parts = [];
  if (log.flood) parts.push(`the latest ${most}; in a flood most of the denied are only counted`);
  if (log.back > 0) parts.push(`${log.back} new held back`);
  setText($("log-note"), parts.join("; "));
  $("log-empty").hidden = $("log").rows.length > 0;
  setText($("log-empty"), log.back > 0 ? `The list is held: ${plural(log.back, "request")} came meanwhile.`
    : "No requests yet: send one, or run a scenario. curl works too.");
}

// hold keeps the list as it is, to be read, and lets it go.
function hold() {
  log.held = !log.held;
  log.back = 0;
  setAttr($("hold"), "aria-pressed", String(log.held));
  note();
  wake();
}

view.cleared.push(() => {
  Object.assign(log, { pending: [], back: 0, flood: false });
  $("log").replaceChildren();
  note();
});

function headerOf(r, name) { return r.headers.find(([n]) => n.toLowerCase() === name)?.[1]; }

// gist is what a row says before its headers are opened.
function gist(r) {
  const retry = headerOf(r, "retry-after"), left = headerOf(r, "x-ratelimit-remaining") ?? headerOf(r, "ratelimit-remaining") ?? /r=(\d+)/.exec(headerOf(r, "ratelimit") ?? "")?.[1];
  const by = (r.replica ? `, replica ${r.replica}` : "") + (r.source === "fallback" ? ", by this process alone" : "");
  if (retry !== undefined) return `retry after ${retry} s${by}`;
  return (left !== undefined ? `${left} left` : "headers") + by;
}

function row(r) {
  const kind = kindOf(r), id = `headers-${r.id}`, text = r.headers.map(([name, value]) => `${name}: ${value}`).join("\n");
  const open = make("button", { type: "button", class: "open", text: gist(r), "aria-expanded": "false", "aria-controls": id, tabindex: "-1" });
  const cell = (attributes, ...children) => make("td", { role: "cell", ...attributes }, ...children);
  return make("tr", { role: "row", "data-id": r.id, "data-status": r.status, "data-framework": r.framework, "data-kind": kind },
    cell({ class: "at", text: clockTime(r.at) }),
    cell({}, make("span", { class: "status", text: `${r.status} ${kind}` })),
    cell({ text: nameOf(r.framework) }),
    cell({ class: "who", text: r.user, title: r.user }),
    cell({ class: "number-cell", text: micros(r.micros) }),
    cell({ class: "headers" }, open, make("pre", { id, text: text || "no headers", hidden: "" })));
}

// reach has one button of the list be a tab stop.
function reach(button) {
  for (const b of $("log").querySelectorAll(".open[tabindex='0']")) if (b !== button) b.tabIndex = -1;
  if (button) button.tabIndex = 0;
}

// draw adds what came, newest first; in a flood not in every frame.
onFrame((time) => {
  if (log.held || log.pending.length === 0) return Infinity;
  if (log.pending.length > 40 && time - log.drawn < 250) return 250 - (time - log.drawn);
  log.drawn = time;
  const body = $("log"), reached = body.querySelector(".open[tabindex='0']"), at = body.contains(document.activeElement) && reached;
  body.prepend(...log.pending.reverse().map(row));
  log.pending = [];
  while (body.rows.length > most) {
    if (at && body.lastChild.contains(at)) $("log-scroll").focus(); // it goes, and the focus would be lost
    body.lastChild.remove();
  }
  if (!at) reach(body.querySelector(".open"));
  note();
  return Infinity;
});

function toggle(button) {
  const open = button.getAttribute("aria-expanded") !== "true";
  setAttr(button, "aria-expanded", String(open));
  button.nextElementSibling.hidden = !open;
  reach(button);
}

export function wireLog() {
  $("hold").addEventListener("click", hold);
  $("log").addEventListener("click", (e) => {
    const button = e.target.closest(".open") ?? e.target.closest("tr")?.querySelector(".open");
    if (button && !e.target.closest("pre")) toggle(button);
  });
  $("log").addEventListener("keydown", (e) => {
    const all = [...$("log").querySelectorAll(".open")], i = all.indexOf(e.target);
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: all.length - 1 }[e.key];
    if (i < 0 || to === undefined) return;
    e.preventDefault();
    const next = all[Math.max(0, Math.min(all.length - 1, to))];
    reach(next);
    next.focus();
  });
}
