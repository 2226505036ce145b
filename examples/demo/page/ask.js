// Requests to the demo.

import { $, capital, say } from "./dom.js";
import { send } from "./transport.js";

// ask sends something to the demo, and returns its answer; null if there is
// none.
export async function ask(method, path, body) {
  try {
    const { status, text } = await send(method, path, body && JSON.stringify(body));
    return { ok: status < 300, data: text.startsWith("{") ? JSON.parse(text) : {} };
  } catch {
    return null;
  }
}

// play has the demo play a script. If it doesn't, the words say why.
export async function play(id, script, order) {
  const got = await ask("POST", `api/run/${id}/${script}`, order);
  if (got && !got.ok) say($(`v-${id}`), capital(got.data[""] ?? "the demo can’t play this"));
}
