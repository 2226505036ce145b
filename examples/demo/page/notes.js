// What is to be said of sending, each until its own reason ends.
import { $, setText } from "./dom.js";

// away is what is said where the server did not answer.
export const away = "The server can’t be reached.";

const notes = {};

export function note(about, text) {
  notes[about] = text;
  setText($("send-note"), Object.values(notes).filter(Boolean).join(" "));
}

// forgetLoss takes back what was said of a server that answers again.
export function forgetLoss() {
  for (const about of Object.keys(notes)) if (notes[about] === away) note(about, "");
  for (const id of ["scenario-note", "err-form", "replicas-note"]) if ($(id).textContent.startsWith(away)) setText($(id), "");
}

// post answers what went wrong, or nothing.
export async function post(path, method = "POST", body = undefined) {
  try {
    const response = await fetch(path, { method, body: body && JSON.stringify(body), headers: body ? { "Content-Type": "application/json" } : {} });
    if (response.ok) return "";
    return (await response.json()).error ?? `The server answered ${response.status}.`;
  } catch {
    return away;
  }
}
