// Where requests go without a server: to the same demo, compiled to WebAssembly,
// in a worker of this page. It has the functions of transport.js.

let worker = null;
let asked = 0;
const waiting = new Map(); // number → what waits for the answer
let hear, lost;

export function send(method, path, body = "") {
  return new Promise((answer, fail) => {
    waiting.set(++asked, { answer, fail });
    worker.postMessage({ ask: asked, method, path: `/${path}`, body });
  });
}

export function open(hearing, losing) {
  [hear, lost] = [hearing, losing];
  worker = new Worker("worker.js");
  worker.onerror = end;
  worker.onmessage = ({ data: { ask, status, name, text, ended } }) => {
    if (ended) return end();
    if (name) return hear(name, text);
    waiting.get(ask).answer({ status, text });
    waiting.delete(ask);
  };
}

// end is what follows when the program could not be loaded, or has ended.
function end() {
  worker.terminate();
  for (const { fail } of waiting.values()) fail(new Error("the demo has ended"));
  waiting.clear();
  lost();
}
