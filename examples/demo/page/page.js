// The demo's page: it shows what the server says, and sends what its visitor asks for.
import { hearState } from "./buckets.js";
import { setClock } from "./clock.js";
import "./countdown.js";
import { wireCode } from "./code.js";
import { $, make } from "./dom.js";
import { wake } from "./frames.js";
import { wireLog } from "./log.js";
import { hearMetrics } from "./metrics.js";
import { hearModes } from "./modes.js";
import { note } from "./notes.js";
import { buildPresets } from "./presets.js";
import { hearReplicas, wireScenes } from "./replicas.js";
import { hearRequests, listRequests } from "./requests.js";
import { greetScenarios, hearScenario, stage, wireScenarios } from "./scenarios.js";
import { wireSending } from "./send.js";
import { hearSettings, takeOwn, wireSettings } from "./settings.js";
import { begin, end, joined, onVisibility, stream } from "./stream.js";
import { wireTheme } from "./theme.js";
import { clearRun, view } from "./view.js";
import { nameOf } from "./words.js";

stream.hear = {
  hello(h) {
    setClock(h.now);
    if (h.metrics.since !== view.since) clearRun();
    view.frameworks = h.frameworks;
    if ($("doors").children.length === 0) $("doors").replaceChildren(...h.frameworks.map((f) => make("li", { "data-door": f, text: nameOf(f) })));
    stage.running = h.running;
    hearSettings(h.settings);
    takeOwn(h.own);
    hearState({ list: h.state, more: h.more, store: h.store });
    hearModes(h.modes);
    hearReplicas(h.replicas);
    view.bins = new Map(Object.entries(h.bins).map(([bin, sums]) => [Number(bin), sums]));
    view.lastBin = Math.max(0, ...view.bins.keys());
    listRequests(h.log, false);
    hearMetrics(h.metrics);
    buildPresets(h.presets);
    greetScenarios(h);
    wake();
  },
  requests: hearRequests,
  state(s) {
    hearState(s);
    hearModes(s.modes);
    if (!s.store.alone) note("reset", ""); // what was said of a Redis that did not answer
  },
  settings: hearSettings,
  metrics: hearMetrics,
  scenario: hearScenario,
  replicas: hearReplicas,
  cleared: clearRun,
};

wireTheme();
wireSending();
wireSettings();
wireScenarios();
wireScenes();
wireLog();
wireCode(() => view.settings);
document.addEventListener("visibilitychange", onVisibility);
addEventListener("pagehide", end);
addEventListener("pageshow", () => { if (!joined()) begin(); });
begin();
