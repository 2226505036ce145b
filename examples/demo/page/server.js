// Where requests go: to the demo's server.

const transport = {
  // ask returns the status and the text of an answer, or fails.
  async ask(method, path, body) {
    const response = await fetch(path, { method, body, cache: "no-store" });
    return { status: response.status, text: await response.text() };
  },

  // open returns the stream of all that the demo tells, from a greeting on.
  open: () => new EventSource("/events"),
};
