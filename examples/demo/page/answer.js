// The latest answer, with what its header fields mean.

import { $, again, clockTime, make, plural, say, set } from "./dom.js";

const tokens = (v) => `${plural(Number(v), "token")} left`;
const part = (text, name) => text.match(new RegExp(`;${name}=(\\d+)`))?.[1];

function draft8(v, d) {
  const more = part(v, "t");
  if (d.allowed) return tokens(part(v, "r")) + (more ? ` for the next ${more} s` : "");
  return `${tokens(d.remaining)}, ${more ? `more in ${more} s` : again(-1)}`;
}

// policy reads a limit as draft 8 writes it, or draft 6: "demo";q=10;w=10, 10;w=10.
const policy = (v) => `${part(v, "q") ?? parseInt(v)} tokens each ${part(v, "w")} s`;

// fields are the header fields, as Go writes them and as documents do, what of
// the picture they are about, and what they mean.
const fields = [
  ["Retry-After", "Retry-After", "ring", (v) => `wait ${v} s`],
  ["X-Ratelimit-Limit", "X-RateLimit-Limit", "rim", (v) => `the bucket holds ${v}`],
  ["X-Ratelimit-Remaining", "X-RateLimit-Remaining", "tokens", tokens],
  ["X-Ratelimit-Reset", "X-RateLimit-Reset", "tap", (v) => `full again at ${clockTime(Number(v) * 1000)}`],
  ["Ratelimit", "RateLimit", "tokens", draft8],
  ["Ratelimit-Policy", "RateLimit-Policy", "tap", policy],
  ["Ratelimit-Limit", "RateLimit-Limit", "rim", (v) => `the bucket holds ${v}`],
  ["Ratelimit-Remaining", "RateLimit-Remaining", "tokens", tokens],
  ["Ratelimit-Reset", "RateLimit-Reset", "tap", (v) => `full again in ${v} s`],
  ["Cache-Control", "Cache-Control", "", () => "must not be cached"],
  ["Content-Type", "Content-Type", "", (v, d) => (d.allowed ? "what the app answers" : "the body says why")],
];

const statuses = { 200: "200 OK", 429: "429 Too Many Requests", 503: "503 Service Unavailable" };

// showDecision shows the answer to a request. A row that stays is written over:
// who has the pointer or the focus on it keeps it.
export function showDecision(d) {
  set($("status"), "data-kind", d.allowed ? "ok" : "no");
  $("status").replaceChildren(make("strong", {}, statuses[d.status] ?? String(d.status)));
  const list = $("fields");
  const sent = fields.flatMap(([name, ...field]) =>
    d.headers.filter(([n]) => n === name).map(([, value]) => [value, ...field]));
  while (list.children.length > 2 * sent.length) list.lastChild.remove();
  sent.forEach(([value, name, about, means], i) => {
    if (list.children.length <= 2 * i) addRow(list);
    const field = list.children[2 * i].firstChild;
    say(field, `${name}: ${value}`);
    say(list.children[2 * i + 1], means(value, d));
    field.dataset.about = about;
  });
  $("body").hidden = false;
  say($("body"), d.body.replace(/,"/g, ', "').replace(/":/g, '": '));
}

// addRow adds a row. While the pointer is on it, or the focus, the picture marks
// what it is about.
function addRow(list) {
  const field = make("button", { type: "button", class: "field" });
  const mark = () => set($("picture"), "data-about", field.dataset.about);
  const unmark = () => set($("picture"), "data-about", null);
  for (const event of ["pointerenter", "focus"]) field.addEventListener(event, mark);
  for (const event of ["pointerleave", "blur"]) field.addEventListener(event, unmark);
  list.append(make("dt", {}, field), make("dd"));
}
