// Where requests go without a server: to the same demo, compiled to WebAssembly, in a worker of this page. Until it has arrived, untouched
// is what it will say first, and what is asked of it waits.

const transport = {
  worker: null, arrived: false,
  asked: 0, waiting: new Map(), // number → what waits for the answer
  streams: 0, stream: null, // how many were opened, and the one that is open, or null

  ask(method, path, body) {
    if (!this.arrived && untouched.answers[path]) return Promise.resolve({ status: 200, text: JSON.stringify(untouched.answers[path]) });
    return new Promise((answer, fail) => {
      this.waiting.set(++this.asked, { answer, fail });
      this.begin().postMessage({ ask: this.asked, method, path, body: body ?? "" });
    });
  },

  // open returns an EventTarget for what is told, as an EventSource is.
  open() {
    const stream = this.stream = Object.assign(new EventTarget(), { id: ++this.streams, close: () => {
      if (stream !== this.stream) return;
      this.stream = null;
      this.worker?.postMessage({ open: 0 });
    } });
    this.begin().postMessage({ open: stream.id });
    if (!this.arrived) queueMicrotask(() => stream.dispatchEvent(new MessageEvent("hello", { data: JSON.stringify(untouched.hello) })));
    return stream;
  },

  begin() {
    if (this.worker) return this.worker;
    const worker = this.worker = new Worker(new URL("worker.js", import.meta.url));
    worker.onmessage = ({ data: { ask, status, stream, name, text, ended } }) => {
      if (worker !== this.worker) return;
      if (ended) return this.end();
      this.arrived = true;
      if (stream) {
        if (stream === this.stream?.id) this.stream.dispatchEvent(new MessageEvent(name, { data: text }));
        return;
      }
      this.waiting.get(ask)?.answer({ status, text });
      this.waiting.delete(ask);
    };
    worker.onerror = () => { if (worker === this.worker) this.end(); };
    return worker;
  },

  // end is what follows when the program could not be loaded, or has ended.
  end() {
    this.worker.terminate();
    Object.assign(this, { worker: null, arrived: false });
    for (const { fail } of this.waiting.values()) fail(new Error("the demo has ended"));
    this.waiting.clear();
    this.stream?.dispatchEvent(new Event("error"));
  },
};
