// The settings in force as a Go program and as curl commands, to copy.
import { $, setText } from "./dom.js";

let shown = "";

// showCode has the server write settings as code, unless it did.
export async function showCode(settings) {
  const framework = $("framework").value, q = new URLSearchParams({ framework: framework === "rotate" ? "gin" : framework, user: $("user").value });
  const wanted = JSON.stringify([settings, q.toString()]);
  if (!settings || wanted === shown) return;
  shown = wanted;
  try {
    const code = await (await fetch(`/api/code?${q}`, { cache: "no-store" })).json();
    if (wanted !== shown) return;
    setText($("code-go"), code.go);
    setText($("code-curl"), code.curl);
    for (const id of ["copied-go", "copied-curl"]) setText($(id), "");
  } catch {
    shown = ""; // asked again with the next change
  }
}

async function copy(id) {
  const from = $(`code-${id}`);
  for (const other of ["go", "curl"]) setText($(`copied-${other}`), "");
  try {
    await navigator.clipboard.writeText(from.textContent);
    setText($(`copied-${id}`), "Copied.");
  } catch { // without TLS, or without leave: the visitor copies it
    getSelection().selectAllChildren(from);
    setText($(`copied-${id}`), "Selected: copy it with Ctrl+C.");
  }
}

export function wireCode(settings) {
  for (const id of ["go", "curl"]) $(`copy-${id}`).addEventListener("click", () => copy(id));
  for (const id of ["framework", "user"]) $(id).addEventListener("change", () => showCode(settings()));
}
