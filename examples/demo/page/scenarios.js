// Scenarios: a chip each, and a panel beside the bucket that tells what is expected, how far it is, and the verdict.
import { $, make, setAttr, setText } from "./dom.js";
import { note, post } from "./notes.js";
import { sendsSteadily, stopFlood } from "./send.js";
import { leaveModes, modesShown } from "./modes.js";
import { busy, takeOwn } from "./settings.js";
import { view } from "./view.js";

export const stage = { chips: new Map(), verdicts: {}, running: "", shown: "" };

// waits tells whether a scenario runs: then only its requests are served.
export const waits = () => stage.running !== "";

export function buildScenarios(list) {
  stage.chips.clear();
  $("scenarios").replaceChildren(...list.map((s) => {
    const hint = make("span", { class: "offscreen expect", id: `expect-${s.id}`, text: s.available ? s.expect : `${s.expect} (${s.reason}.)` });
    const run = make("button", { type: "button", class: "run", text: s.title, title: hint.textContent, "aria-describedby": hint.id });
    run.disabled = !s.available;
    run.addEventListener("click", async () => {
      if (waits()) return;
      leaveModes();
      setText($("scenario-note"), await post(`/api/scenarios/${encodeURIComponent(s.id)}`, "POST"));
    });
    stage.chips.set(s.id, { ...s, run, expect: hint.textContent });
    return make("li", { "data-scenario": s.id }, run, hint);
  }));
}

// showPanel tells of the scenario that runs, or of the last one that did.
export function showPanel() {
  const chip = stage.chips.get(stage.shown), on = waits(), verdict = on ? null : stage.verdicts[stage.shown];
  $("playing").hidden = !chip || modesShown();
  if (!chip) return;
  setAttr($("playing"), "data-shown", stage.shown);
  setText($("playing-title"), chip.title);
  setText($("playing-expect"), chip.expect);
  setText($("verdict"), verdict?.text ?? "");
  setAttr($("verdict"), "data-ok", { expected: "true", unexpected: "false", none: "none" }[verdict?.outcome] ?? "");
  if (!on) setText($("progress"), "");
}

export function showStage() {
  for (const [id, chip] of stage.chips) {
    setAttr(chip.run, "aria-disabled", String(waits() || !chip.available));
    if (id === stage.running) setAttr(chip.run, "aria-current", "step"); else chip.run.removeAttribute("aria-current");
  }
  if (!waits() && document.activeElement === $("stop")) stage.chips.get(stage.shown)?.run.focus();
  $("stop").hidden = !waits();
  showPanel();
  // They stay where they are for the keyboard, and do nothing.
  for (const id of ["send", "burst", "flood", "reset", "apply"]) setAttr($(id), "aria-disabled", String(waits()));
  setAttr($("steady"), "aria-disabled", String(waits() && !sendsSteadily()));
  note("stage", waits() ? "A scenario is running and only its requests are served: sending waits until it is over." : "");
}

// greetScenarios takes what the server says first: what runs, and the verdicts there are.
export function greetScenarios({ scenarios, verdicts, running }) {
  if (stage.chips.size === 0) buildScenarios(scenarios);
  stage.verdicts = verdicts ?? {};
  stage.running = running;
  stage.shown = running || stage.shown || Object.keys(stage.verdicts).at(-1) || "";
  if (!waits()) afterScenario();
  showStage();
}

export function hearScenario(s) {
  stage.running = s.running ? s.id : "";
  stage.shown = s.id;
  if (!s.running) stage.verdicts[s.id] = s.verdict;
  if (s.running) stopFlood(); else afterScenario();
  showStage();
  if (s.running) setText($("progress"), `${s.progress ?? "running"} …`);
}

// afterScenario takes back what was said of one that runs.
function afterScenario() {
  setText($("scenario-note"), "");
  note("reset", "");
  if ($("err-form").textContent === busy) setText($("err-form"), "");
  takeOwn(view.settings);
}

view.cleared.push(() => {
  stage.verdicts = {};
  if (!waits()) stage.shown = "";
  showPanel();
});

export function wireScenarios() {
  $("stop").addEventListener("click", async () => { setText($("scenario-note"), await post("/api/scenarios", "DELETE")); });
}
