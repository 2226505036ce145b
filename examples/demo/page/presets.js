// Limits as they are used in the field, to try with one click.
import { $, make } from "./dom.js";
import { apply } from "./settings.js";

export function buildPresets(list) {
  if ($("presets").children.length > 0) return;
  $("presets").replaceChildren(...list.map((p) => {
    const button = make("button", { type: "button", class: "plain", text: p.title, title: p.text, "data-preset": p.id });
    button.addEventListener("click", () => apply(p.settings));
    return make("li", {}, button);
  }));
  const steps = list.find((p) => p.id === "steps");
  if (steps) $("use-steps").addEventListener("click", () => apply(steps.settings));
}
