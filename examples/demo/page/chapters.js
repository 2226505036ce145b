// The chapters: each has one button, and a picture whose last frame stays.

import { ask, play } from "./ask.js";
import { $, draw, label, say, set } from "./dom.js";
import { sizeHero } from "./hero.js";
import { buildLose } from "./lose.js";
import { buildModes } from "./modes.js";
import { buildShare } from "./share.js";
import { chapterOf, delay, frames, now, wake } from "./time.js";
import { sizeYours } from "./yours.js";

// A picture's builder draws it so wide, and returns its height and its frame.
const builders = { modes: buildModes, share: buildShare, lose: buildLose };
const pictures = {}; // chapter → its picture

export function buildChapters() {
  for (const id of Object.keys(builders)) frames.push((t) => pictures[id].frame(t));
  addEventListener("resize", build);
  for (const button of document.querySelectorAll("[data-play]")) {
    button.dataset.name = button.textContent;
    button.addEventListener("click", () => press(button));
  }
  build();
}

const scriptOf = (button) => button.dataset.script ?? "play";

// press plays a button's script, or ends it.
function press(button) {
  const id = button.dataset.play;
  const script = scriptOf(button);
  const { run } = chapterOf(id);
  if (run.running && run.script === script) return ask("DELETE", `api/run/${id}`);
  const typed = button.id !== "play-yours" && { burst: "n", steady: "per" }[script];
  if (typed && !$(typed).reportValidity()) return;
  const n = Number(button.dataset.n || $("n").value);
  play(id, script, { n, rate: Number($("per").value), user: $("user").value });
}

// hearRun shows what became of a script. The words come when the picture has
// shown it.
export function hearRun(run, tell) {
  const chapter = chapterOf(run.chapter);
  chapter.run = run;
  if (run.running && run.script === "play") {
    chapter.began = run.at;
    chapter.decisions = chapter.decisions.filter((d) => d.show > run.at);
  }
  for (const button of document.querySelectorAll(`[data-play="${run.chapter}"]`)) {
    const mine = run.running && run.script === scriptOf(button) && !["one", "burst"].includes(run.script);
    say(button, mine ? "Stop" : button.dataset.name);
  }
  const show = () => {
    const el = $(`v-${run.chapter}`);
    if (chapter.run === run && (run.text || run.running || !run.script)) say(el, run.text);
    if (run.text) tell(run.text);
  };
  if (run.running) show();
  else setTimeout(show, Math.max(delay, ...Object.values(chapter.last).map((last) => last - now())));
}

// A picture is as wide as its place, so that letters are as large as in the text.
// Below 560 pixels its parts stand one below the other.
const wideFrom = 560;

function build() {
  for (const [id, builder] of Object.entries(builders)) {
    const svg = $(`f-${id}`);
    const width = Math.max(260, svg.clientWidth);
    if (pictures[id]?.width === width) continue;
    svg.replaceChildren();
    pictures[id] = { width, ...builder(svg, width, width >= wideFrom) };
    set(svg, "viewBox", `0 0 ${width} ${pictures[id].high}`);
  }
  sizeHero(wideFrom);
  sizeYours();
  wake();
}
