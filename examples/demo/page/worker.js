// The worker runs the demo's program. It passes on what the page asks, and what the page is told.

importScripts("../wasm_exec.js");

const go = new Go();
const ready = begin();
let close = () => {};

async function begin() {
  const file = await fetch("demo.wasm");
  if (!file.ok) throw new Error(`demo.wasm: status ${file.status}`);
  const streams = file.headers.get("Content-Type") === "application/wasm"; // not every host says so
  const { instance } = streams ? await WebAssembly.instantiateStreaming(file, go.importObject) : await WebAssembly.instantiate(await file.arrayBuffer(), go.importObject);
  go.run(instance).finally(end); // it returns with the program at work, which has set demo
}

function end() { postMessage({ ended: true }); }
ready.catch(end);

onmessage = async ({ data: { ask, method, path, body, open } }) => {
  try {
    await ready;
  } catch {
    return; // the page knows
  }
  if (ask) return demo.ask(method, path, body, (status, text) => postMessage({ ask, status, text }));
  close();
  close = open ? demo.open((name, text) => postMessage({ stream: open, name, text })) : () => {};
};
