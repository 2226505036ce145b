// Light, dark, or as the system has it.
import { $ } from "./dom.js";
import { mixInks } from "./chart.js";

const themes = ["auto", "light", "dark"];

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("theme", name); } catch { /* a page without storage forgets it */ }
  mixInks();
}

export function wireTheme() {
  let name = "auto";
  try { name = localStorage.getItem("theme") ?? name; } catch { /* as above */ }
  setTheme(themes.includes(name) ? name : "auto");
  $("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "auto";
    setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", mixInks);
}
