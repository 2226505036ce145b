// The lines of Go that make a chapter's limits.

import { ask } from "./ask.js";
import { $, make, say } from "./dom.js";

const programs = {}; // chapter → its code
const asks = {}; // chapter → how often its code was asked for

// showCode shows the lines of a chapter. What has changed is marked.
export async function showCode(id) {
  const n = (asks[id] = (asks[id] ?? 0) + 1);
  const got = await ask("GET", `api/code/${id}?framework=${$("framework").value}`);
  if (!got?.ok || n !== asks[id]) return; // another one was asked for since
  const old = programs[id]?.lines;
  programs[id] = got.data;
  const { lines } = got.data;
  if (old === lines) return;
  $(`code-${id}`).replaceChildren(...(old ? marked(old, lines) : [lines]));
}

// marked is the text after a change, with its words that have changed marked.
function marked(before, after) {
  const words = (text) => text.match(/[\w.]+|\s+|[^\w\s]/g) ?? [];
  const [was, is] = [words(before), words(after)];
  let from = 0; // how many words are as before, at the start
  let to = 0; // and at the end
  while (from < is.length && is[from] === was[from]) from++;
  while (to < is.length - from && is.at(-1 - to) === was.at(-1 - to)) to++;
  const part = (a, b) => is.slice(a, b).join("");
  return [part(0, from), make("mark", {}, part(from, is.length - to)), part(is.length - to, is.length)];
}

export function buildCode() {
  $("framework").addEventListener("change", () => {
    for (const id of Object.keys(programs)) showCode(id);
  });
  for (const [button, id] of [["copy", "drain"], ["copy-yours", "yours"]]) {
    $(button).addEventListener("click", () => copy(programs[id]?.program, $(button)));
  }
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
  } catch { // without TLS, or without leave: the visitor copies it
    getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
    say(button, "Press Ctrl+C");
  }
  setTimeout(() => say(button, before), 2000);
}
