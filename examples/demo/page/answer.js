// What came of what was sent: the last answer as curl would show it, and a tally beside each button.
import { $, make, setAttr, setText } from "./dom.js";
import { view } from "./view.js";

const known = /^(ratelimit|x-ratelimit|retry-after|cache-control|content-type)/;
const spelled = (name) => name.split("-").map((w) => ({ ratelimit: "RateLimit" })[w] ?? w[0].toUpperCase() + w.slice(1)).join("-");

// showAnswer shows the status line and the headers of a response.
export function showAnswer(response, framework) {
  const lines = [...response.headers].filter(([name]) => known.test(name)).map(([name, value]) => `${spelled(name)}: ${value}`);
  setAttr($("answer"), "data-kind", response.ok ? "allowed" : response.status === 429 ? "denied" : "error");
  $("answer").replaceChildren(make("strong", { text: `${response.status} ${response.statusText || ({ 200: "OK", 429: "Too Many Requests" })[response.status] || ""}`.trim() }),
    make("span", { text: ` from ${framework}` }), make("pre", { text: lines.join("\n") }));
}

// tally counts what came of the requests of one button, and says so beside it.
export function tally(id) {
  const sums = { allowed: 0, denied: 0, failed: 0, retry: "" };
  const say = () => {
    const parts = [`${sums.allowed} allowed`, `${sums.denied} denied`];
    if (sums.failed > 0) parts.push(`${sums.failed} failed`);
    if (sums.retry) parts.push(`retry after ${sums.retry} s`);
    setText($(id), parts.join(", "));
  };
  return (response) => {
    if (response.ok) sums.allowed++;
    else if (response.status === 429) { sums.denied++; sums.retry = response.headers.get("Retry-After") ?? ""; }
    else sums.failed++;
    say();
  };
}

const results = ["said-burst", "said-steady", "said-flood"];

// A run that is cleared takes along what was said of it.
view.cleared.push(() => {
  for (const id of results) setText($(id), "");
  setText($("answer"), "");
  setAttr($("answer"), "data-kind", "");
});
