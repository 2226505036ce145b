// Where requests go: to the demo's server.

const transport = {
  // ask returns the status and the text of an answer, or fails.
  async ask(method, path, body) {
    const response = await fetch(path, { method, body, cache: "no-store" });
    return { status: response.status, text: await response.text() };
  },

  // open calls hear(name, text) for all that the demo tells, from a greeting on, until the stream is closed, or lost.
  open(names, hear, lost) {
    const source = new EventSource("/events");
    for (const name of names) source.addEventListener(name, (e) => hear(name, e.data));
    source.addEventListener("error", lost);
    return source;
  },
};
