// The worker runs the demo's program. It passes on what the page asks, and what
// the page is told.

importScripts("wasm_exec.js");

const go = new Go();
const ready = begin();
ready.then(() => demo.open((name, text) => postMessage({ name, text })), end);

async function begin() {
  const file = await fetch("demo.wasm");
  if (!file.ok) throw new Error(`demo.wasm: status ${file.status}`);
  const { instance } = await WebAssembly.instantiate(await file.arrayBuffer(), go.importObject);
  go.run(instance).finally(end); // it returns with the program at work, which has set demo
}

function end() {
  postMessage({ ended: true });
}

onmessage = async ({ data: { ask, method, path, body } }) => {
  await ready;
  demo.ask(method, path, body, (status, text) => postMessage({ ask, status, text }));
};
