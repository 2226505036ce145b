// One clock. The demo tells what happened and when; the page draws everything as
// it was at one instant, a moment ago: t. So a request can be seen to come before
// it is decided, and nothing is ahead of anything else.

export const delay = 450; // ms behind the demo
export const travel = 310; // ms on the way to the bucket
export const leave = 450; // ms on the way away from it
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

export const clock = { offset: 0, frozen: 0 }; // frozen: when the demo was lost

export const now = () => clock.frozen || performance.now() + clock.offset - delay;

// heardAt corrects the clock: nothing can be heard before it was said.
function heardAt(at) {
  clock.offset += Math.max(0, at - delay - now());
}

// A chapter has its settings, its latest run, the decisions that were heard, the
// moments of each bucket, and when the latest of each service is drawn.
const chapters = new Map();

export function chapterOf(id) {
  if (!chapters.has(id)) chapters.set(id, { settings: null, run: {}, decisions: [], buckets: new Map(), last: {} });
  return chapters.get(id);
}

export const forget = () => chapters.clear();

// place is when something of a service is drawn. What came within a few ms is
// drawn one after the other, within a second.
function place(chapter, service, at, gap) {
  const last = chapter.last[service] ?? 0;
  const behind = last - at;
  const show = last === 0 ? at : Math.max(at, last + (behind < 700 ? gap : 0));
  chapter.last[service] = show;
  return show;
}

// hearDecision takes a decision: from its instant on the bucket has the tokens
// that it left, or what it has is not known.
export function hearDecision(d) {
  const chapter = chapterOf(d.chapter);
  heardAt(d.at);
  d.show = place(chapter, d.service, d.at, 46);
  chapter.decisions.push(d);
  if (chapter.decisions.length > 500) chapter.decisions.shift();
  hearBucket({ ...d, by: d });
}

// hearBucket takes the state of a bucket, as a moment of it.
export function hearBucket(b) {
  const chapter = chapterOf(b.chapter);
  const id = bucketId(b);
  heardAt(b.at);
  if (!chapter.buckets.has(id)) chapter.buckets.set(id, []);
  const moments = chapter.buckets.get(id);
  moments.push({ ...b, limits: b.limits ?? [], show: b.by ? b.by.show : place(chapter, b.service, b.at, 0) });
  if (moments.length > 1500) moments.shift();
}

export const bucketId = (b) => `${b.service}/${b.key}`;

// momentsOf is the moments of a service's first bucket, in the order in which
// they are drawn.
export function momentsOf(chapter, service) {
  return [...chapter.buckets].find(([id]) => id.startsWith(`${service}/`))?.[1] ?? [];
}

// latest is the last of a list that is drawn by t, or undefined.
export const latest = (list, t) => list.findLast((m) => m.show <= t);

// around is those of a list that are drawn from before t to after it.
export function around(list, t, before, after) {
  return list.filter((m) => m.show > t - before && m.show < t + after);
}

// frames are functions of t that draw, and return in how many ms they must draw
// again. A page at rest draws nothing.
export const frames = [];
let asked = 0;
let timer = 0;

export function wake() {
  clearTimeout(timer);
  asked ||= requestAnimationFrame(() => {
    asked = 0;
    const t = now();
    const rest = Math.min(...frames.map((frame) => frame(t)));
    if (clock.frozen || document.hidden) return;
    if (rest < 34) wake();
    else if (rest < 1e8) timer = setTimeout(wake, rest);
  });
}

// restOf is how long a chapter rests at t: something is under way, or will be,
// or a ring moves.
export function restOf(chapter, t) {
  let rest = Infinity;
  for (const list of [chapter.decisions, ...chapter.buckets.values()]) {
    if (list.at(-1)?.show > t - 4200) rest = 0;
  }
  for (const list of chapter.buckets.values()) {
    for (const l of latest(list, t)?.limits ?? []) if (l.next_ms > 0) rest = Math.min(rest, l.period_ms / 400);
  }
  return rest;
}
