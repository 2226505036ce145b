// The stream of events: all that the page knows comes through it, in order.

const stream = { source: null, retry: 0, greeted: false, sleep: 0 };

function connect() {
  clearTimeout(stream.retry);
  stream.source?.close();
  const source = stream.source = transport.open();
  const hear = (name, f) => source.addEventListener(name, (e) => {
    if (source !== stream.source) return;
    f(JSON.parse(e.data));
    wake();
  });
  hear("hello", greet);
  hear("decisions", ({ list, skipped }) => {
    for (const d of list) { hearDecision(d); noteDecision(d); }
    const more = Object.values(skipped).reduce((n, m) => n + m, 0);
    if (more > 0) $("rows").prepend(make("tr", {}, make("td", { colspan: 8 }, `and ${plural(more, "request")} more, refused`)));
  });
  hear("buckets", (list) => { for (const b of list) hearBucket(b); });
  hear("settings", hearSettings);
  hear("run", hearRun);
  hear("redis", hearRedis);
  source.addEventListener("error", () => { if (source === stream.source) lose(); });
}

// lose says that the demo does not answer. The picture stands still: what happens there is not known.
function lose() {
  stream.source.close();
  clock.frozen ||= now();
  $("banner").hidden = false;
  document.body.classList.add("lost");
  clearTimeout(stream.retry);
  stream.retry = setTimeout(connect, 1000);
}

// greet begins with what the server says is so.
function greet(g) {
  clock.offset = g.now - performance.now();
  clock.frozen = 0;
  $("banner").hidden = true;
  document.body.classList.remove("lost");
  stages.clear();
  unwritten.length = 0;
  $("rows").replaceChildren();
  for (const d of g.log) addRow(d);
  const isNow = (p) => g.buckets.some((b) => b.stage === p.stage && b.at === p.at && bucketId(b) === bucketId(p));
  for (const m of [...g.log, ...(g.past ?? []).filter((p) => !isNow(p))].sort((a, b) => a.at - b.at)) (m.id ? hearDecision : hearBucket)(m, true);
  for (const b of g.buckets) {
    hearBucket(b, true);
    stageOf(b.stage).keys.add(bucketId(b));
  }
  hero.drawn = null;
  say($("place"), g.place);
  say($("through"), g.through);
  say($("share-says"), `Redis: ${g.redis.text}`);
  hearRedis(g.redis);
  if (!stream.greeted) buildPresets(g.presets);
  for (const [id, { settings, run }] of Object.entries(g.stages)) {
    stageOf(id).settings = settings;
    if (run.script) hearRun(run, true);
    else if ($(`v-${id}`)) say($(`v-${id}`), ""); // a server that was started again has played nothing
    if (id === "drain" || id === "yours") hearSettings({ stage: id, settings });
  }
  for (const id of ["share", "lose"]) showCode(id);
  if (!stream.greeted) send("burst", { n: 15, auto: true });
  stream.greeted = true;
}

// A page that nobody sees leaves the stream to others: browsers open only six connections to a server.
document.addEventListener("visibilitychange", () => {
  clearTimeout(stream.sleep);
  if (!document.hidden) return stream.source ? wake() : connect();
  stream.sleep = setTimeout(() => { stream.source?.close(); stream.source = null; clearTimeout(stream.retry); }, 5000);
});

// What a screen reader hears: each single answer at once, and a burst in one sentence.
const aloud = { list: [], timer: 0 };

function tellAloud(text) { $("said").textContent = text; }

function noteDecision(d) {
  unwritten.push(d);
  if (d.run && d.run !== "one") return; // what came of the script is said
  aloud.list.push(d);
  aloud.timer ||= setTimeout(() => {
    const list = aloud.list, d = list.at(-1), passed = list.filter((d) => d.allowed).length;
    aloud.list = [];
    aloud.timer = 0;
    if (list.length > 1) return tellAloud(`${list.length} requests: ${passed} passed, ${list.length - passed} refused.`);
    tellAloud(d.allowed ? `${d.status}: passed, ${plural(d.remaining, "token")} left.` : d.status === 429 ? `429: refused, ${d.remaining} left, ${again(d.retry_ms)}.` : `${d.status}: failed.`);
  }, delay);
}

// The log: what the frames show, as the server wrote it down. A row comes when its decision is drawn.
const unwritten = [];

frames.push((t) => {
  while (unwritten[0]?.show <= t) addRow(unwritten.shift());
  return unwritten.length > 0 ? 0 : Infinity;
});

function addRow(d) {
  const cells = [d.id, clockTime(d.at), d.stage + (d.lane ? ` ${d.lane}` : ""), nameOf(d.framework), d.user, d.status, d.remaining, d.status === 429 ? wait(d.retry_ms) : ""];
  $("rows").prepend(make("tr", { "data-id": d.id }, ...cells.map((c) => make("td", {}, String(c)))));
  if ($("rows").children.length > 100) $("rows").lastChild.remove();
}

buildHero();
buildChapters();
buildYours();
build();
showSentence();
calm.addEventListener("change", wake);
connect();
