// One clock. The server tells what happened and when; the page draws everything as it was at one instant, a moment ago: t.
// So a request can be seen to come before it is decided, and nothing is ahead of anything else.

const delay = 450, travel = 310, leave = 450; // ms: behind the server, to the bucket, and away from it
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const clock = { offset: 0, frozen: 0 }; // frozen: when the server was lost
const stages = new Map(); // id → { settings, run, decisions, buckets: id → moments, keys: ids of those in use, last: lane → when the latest is drawn }

const now = () => clock.frozen || performance.now() + clock.offset - delay;

// heardAt corrects the clock: nothing can be heard before it was said.
function heardAt(at) { clock.offset += Math.max(0, at - delay - now()); }

function stageOf(id) {
  if (!stages.has(id)) stages.set(id, { id, settings: null, run: {}, decisions: [], buckets: new Map(), keys: new Set(), last: {} });
  return stages.get(id);
}

// place is when something of a lane is drawn. What came within a few ms is drawn one after the other, within a second.
function place(stage, lane, at, gap) {
  const last = stage.last[lane] ?? 0, behind = Math.max(0, last - at);
  const show = last === 0 ? at : Math.max(at, last + (behind < 700 ? gap : 0));
  stage.last[lane] = show;
  return show;
}

// hearDecision takes a decision: from its instant on the bucket has the tokens that it left, or what it has is not known.
function hearDecision(d, past) {
  const stage = stageOf(d.stage);
  if (!past) heardAt(d.at);
  d.show = place(stage, d.lane ?? "", d.at, past ? 0 : 46);
  stage.decisions.push(d);
  if (stage.decisions.length > 500) stage.decisions.shift();
  hearBucket({ ...d, by: d }, past);
}

// hearBucket takes the state of a bucket.
function hearBucket(b, past) {
  const stage = stageOf(b.stage), list = momentsOf(b);
  const moment = { at: b.at, limits: b.limits ?? [], source: b.source, user: b.user, key: b.key, lane: b.lane ?? "", by: b.by };
  moment.show = b.by ? b.by.show : place(stage, moment.lane, b.at, 0);
  if (!past) {
    heardAt(b.at);
    stage.keys.add(bucketId(b));
  }
  const last = list.at(-1), due = last?.show + last?.limits[0]?.next_ms;
  if (past && last?.show > moment.show) return;
  if (past && last?.limits[0]?.next_ms > 0 && due < moment.show - 1000) list.push({ ...last, show: due, limits: [] }); // nobody looked
  list.push(moment);
  if (list.length > 1500) list.shift();
}

const bucketId = (b) => `${b.lane ?? ""}/${b.key}`;

// inUse is the buckets of a stage whose keys are in use.
const inUse = (stage) => [...stage.buckets].filter(([id]) => stage.keys.has(id));

// momentsOf is the states of a bucket, in the order in which they are drawn.
function momentsOf(b) {
  const buckets = stageOf(b.stage).buckets, id = bucketId(b);
  if (!buckets.has(id)) buckets.set(id, []);
  return buckets.get(id);
}

// latest is the last of a list that is drawn by t, or undefined.
function latest(list, t) {
  for (let i = list.length - 1; i >= 0; i--) if (list[i].show <= t) return list[i];
}

// around is those of a list that are drawn from before t to after it.
function around(list, t, before, after) {
  let i = list.length;
  while (i > 0 && list[i - 1].show > t - before) i--;
  const found = [];
  for (; i < list.length && list[i].show < t + after; i++) found.push(list[i]);
  return found;
}

// frames are functions of t that draw, and return in how many ms they must draw again. A page at rest draws nothing.
const frames = [];
let asked = 0, timer = 0;

function wake() {
  clearTimeout(timer);
  asked ||= requestAnimationFrame(() => {
    asked = 0;
    const t = now();
    let rest = Infinity;
    for (const frame of frames) rest = Math.min(rest, frame(t));
    if (clock.frozen || document.hidden) return;
    if (rest < 34) wake(); else if (rest < 1e8) timer = setTimeout(wake, rest);
  });
}

// restOf is how long a stage rests at t: something is under way, or will be, or a ring moves.
function restOf(stage, t) {
  let rest = Infinity;
  for (const list of [stage.decisions, ...stage.buckets.values()]) {
    const last = list.at(-1);
    if (last && last.show > t - 4200) rest = Math.min(rest, 0);
  }
  for (const list of stage.buckets.values()) for (const l of latest(list, t)?.limits ?? []) if (l.next_ms > 0) rest = Math.min(rest, l.period_ms / 400);
  return rest;
}
