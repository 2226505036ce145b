// What the server says of requests.
import { rain } from "./buckets.js";
import { calm, $ } from "./dom.js";
import { wake } from "./frames.js";
import { list } from "./log.js";
import { rainModes } from "./modes.js";
import { count, idOf, kindOf, view } from "./view.js";

// hearRequests takes the requests that are new, and counts by tenth of a second of those that were too many to be named.
export function hearRequests({ list: named, dropped }) {
  for (const r of named) count(Math.floor(r.at / 100), { [kindOf(r)]: 1 });
  for (const [bin, sums] of Object.entries(dropped)) count(Number(bin), sums);
  const fresh = listRequests(named, Object.keys(dropped).length > 0);
  rain(fresh);
  rainModes(fresh);
  light(fresh);
  wake();
}

// listRequests has those that are new stand in the log, and returns them.
export function listRequests(all, flood) {
  const fresh = all.filter((r) => r.id > view.lastID);
  for (const r of fresh) {
    view.lastID = r.id;
    if (r.status === 429) view.denied = { id: idOf(r), at: r.at + r.micros / 1000 };
    else if (view.denied?.id === idOf(r) && r.at > view.denied.at) view.denied = null; // older ones may end later
  }
  list(fresh, flood);
  return fresh;
}

// light shows which frameworks just answered.
function light(fresh) {
  if (calm.matches) return;
  for (const [framework, kind] of new Map(fresh.map((r) => [r.framework, kindOf(r)]))) {
    const door = $("doors").querySelector(`[data-door="${CSS.escape(framework)}"]`);
    door?.animate([{ background: `var(--${kind}-tint)`, borderColor: `var(--${kind})`, color: `var(--${kind})` }, {}], { duration: 600 });
  }
}
