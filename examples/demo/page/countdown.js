// How long to wait after a 429.
import { $, setText } from "./dom.js";
import { onFrame } from "./frames.js";
import { serverNow } from "./clock.js";
import { waitFor } from "./level.js";
import { view } from "./view.js";
import { duration, plural } from "./words.js";

// show tells how long to wait. The bucket may come to be known only after the request.
onFrame(() => {
  const now = serverNow(), b = view.buckets.get(view.denied?.id), cost = view.settings?.cost ?? 1;
  let text = "", again = Infinity;
  if (b && b.state.at > view.denied.at) {
    const wait = waitFor(b.state, now), who = view.settings.key === "user" ? ` for ${b.state.user}` : "";
    if (wait === Infinity) text = `never: a request costs ${plural(cost, "token")}, more than the bucket holds`;
    else if (wait > 0) {
      const step = wait < 20e3 ? 100 : wait < 120e3 ? 1000 : 60e3, left = Math.ceil(wait / step) * step;
      text = `429: next ${cost > 1 ? plural(cost, "token") : "token"}${who} in ${step === 100 ? `${(left / 1000).toFixed(1)} s` : duration(left)}`;
      again = Math.max(1, wait - (left - step));
    } else view.denied = null;
  }
  setText($("countdown"), text);
  say(text);
  return again;
});

// say has a screen reader tell that it began, and no more often than anybody would want to hear.
const said = { since: -Infinity, text: "" };
function say(text) {
  const began = text !== "" && said.text === "";
  said.text = text;
  if (!began || performance.now() - said.since < 10e3) return;
  said.since = performance.now();
  setText($("countdown-said"), `Denied: ${text}`);
}
