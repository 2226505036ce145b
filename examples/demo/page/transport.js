// Where requests go: to the demo's server. On a host of files tab.js stands in
// for this file.

// send returns the status and the text of an answer, or fails.
export async function send(method, path, body) {
  const response = await fetch(path, { method, body, cache: "no-store" });
  return { status: response.status, text: await response.text() };
}

// open calls hear(name, text) for all that the demo tells, from a greeting on,
// and lost() when that has ended.
export function open(hear, lost) {
  const source = new EventSource("events");
  for (const name of ["hello", "decisions", "buckets", "settings", "run", "redis"]) {
    source.addEventListener(name, (e) => hear(name, e.data));
  }
  source.onerror = () => {
    source.close();
    lost();
  };
}
