// The stream of events: all that the page knows comes through it.
import { $, setAttr, setText } from "./dom.js";
import { serverNow } from "./clock.js";
import { wake } from "./frames.js";
import { forgetLoss } from "./notes.js";
import { loseSight } from "./past.js";
import { stopSending } from "./send.js";

// A browser grants a server six connections for all tabs together, and a stream holds one for good. So one tab, which has
// the lock, opens the stream and hands what it hears to the others. Where browsers know neither locks nor channels, as
// on pages of another machine without TLS, each tab has a stream of its own.
export const stream = {
  source: null, // this tab's own, if it has one
  channel: null, // to the other tabs
  leave: null, // gives the lock back
  leads: false,
  early: null, // what came before the greeting
  seq: 0, // of the latest event
  hear: {}, // what to do with each event
  retry: null,
};

// begin joins the stream, by a connection or through another tab.
export function begin() {
  if (!navigator.locks || !window.BroadcastChannel) return connect();
  stream.channel = new BroadcastChannel("events");
  stream.channel.addEventListener("message", (e) => hearShared(e.data));
  stream.leave = new AbortController();
  const { signal } = stream.leave;
  const lead = () => signal.aborted ? undefined : new Promise((done) => {
    signal.addEventListener("abort", done);
    stream.leads = true;
    connect();
  });
  navigator.locks.request("events", { ifAvailable: true }, (lock) => {
    if (lock) return lead();
    navigator.locks.request("events", { signal }, lead).catch(() => {}); // it left
    follow();
  });
}

// end leaves the stream to the other tabs.
export function end() {
  clearTimeout(stream.retry);
  stream.source?.close();
  stream.channel?.close();
  stream.leave?.abort();
  Object.assign(stream, { source: null, channel: null, leave: null, leads: false, early: null });
}

// joined tells whether this page hears anything.
export const joined = () => stream.source !== null || stream.channel !== null;

// follow is greeted by the server, and from then on hears what another tab hands on.
async function follow() {
  clearTimeout(stream.retry);
  stream.early = [];
  let text;
  try {
    const response = await fetch("/api/hello", { cache: "no-store" });
    text = await response.text();
    if (!response.ok) throw new Error(text);
  } catch {
    if (stream.source || !stream.channel || !stream.early) return; // it has its own by now, or left, or was greeted
    setLive(false);
    stream.retry = setTimeout(follow, 1000);
    return;
  }
  const early = stream.early;
  if (stream.source || !early) return;
  stream.early = null;
  take("hello", text, 0);
  for (const e of early) take(e.name, e.text, e.seq);
}

// hearShared takes what the leading tab hands on.
function hearShared(e) {
  if (stream.leads || stream.source && e.name === "lost") return;
  if (stream.source) { // it helped itself while no tab led
    stream.source.close();
    stream.source = null;
    clearTimeout(stream.retry);
    follow();
  }
  if (e.name === "lost") return lostSight();
  if (e.name === "hello") { // the stream began anew, perhaps that of another process
    clearTimeout(stream.retry);
    stream.early = null;
  }
  if (stream.early) stream.early.push(e); else take(e.name, e.text, e.seq);
}

// take has the page hear an event, unless its greeting knew of it.
function take(name, text, seq) {
  const data = JSON.parse(text);
  if (name === "hello") stream.seq = data.seq;
  else if (seq <= stream.seq) return;
  else stream.seq = seq;
  setLive(true);
  stream.hear[name](data);
}

function connect() {
  clearTimeout(stream.retry);
  stream.source?.close();
  stream.early = null;
  const source = stream.source = new EventSource("/events");
  for (const name of Object.keys(stream.hear)) {
    source.addEventListener(name, (e) => {
      if (source !== stream.source) return;
      const event = { name, text: e.data, seq: Number(e.lastEventId) };
      if (stream.leads) stream.channel.postMessage(event);
      take(event.name, event.text, event.seq);
    });
  }
  source.addEventListener("error", () => { if (source === stream.source) lost(); });
}

// lost says so, and tries again in a second.
export function lost() {
  stream.source?.close();
  if (stream.leads) stream.channel.postMessage({ name: "lost" });
  lostSight();
  clearTimeout(stream.retry);
  stream.retry = setTimeout(connect, 1000);
}

function lostSight() {
  setLive(false);
  loseSight(serverNow());
  stopSending("the connection to the demo was lost.");
}

function setLive(on) {
  if (on && $("live").dataset.live === "false") forgetLoss();
  setAttr($("live"), "data-live", String(on));
  $("banner").hidden = on;
  document.body.classList.toggle("lost", !on);
  setText($("banner"), on ? "" : "The connection to the demo is lost: what you see is not live. Trying again …");
}

// onVisibility: a page nobody sees sends nothing, and after a while leaves the stream to those that are seen.
let asleep = null;
export function onVisibility() {
  clearTimeout(asleep);
  if (document.hidden) {
    stopSending("this page was hidden, and a page that nobody sees sends nothing.");
    asleep = setTimeout(end, 30e3);
    return;
  }
  if (!joined()) begin();
  else if (!stream.source && !stream.early) follow(); // it was told by another tab, which may be gone
  wake();
}
