// Requests as drops: one that is allowed falls into the water and a token leaves below, one that is denied bounces off.
import { calm, makeSVG } from "./dom.js";

const most = 28; // in the air at once, for each bucket
const tear = "M0 -10 C4 -4 6.5 -1 6.5 3 A6.5 6.5 0 1 1 -6.5 3 C-6.5 -1 -4 -4 0 -10Z";
const at = (x, y, scale = 1) => `translate(${x}px, ${y}px) scale(${scale})`;

// play moves an element through frames, and takes it away.
function play(level, el, frames, options) {
  if (level.air.childElementCount >= most) return null;
  level.air.append(el);
  const move = el.animate(frames, { fill: "both", ...options });
  const gone = () => el.remove();
  move.finished.then(gone, gone);
  return move;
}

// drop shows a request. surface is the height of the water, and nth its place among those that came at once.
export function drop(level, allowed, surface, nth) {
  if (calm.matches) return;
  const x = 80 + 62 * (((nth * 0.618034 + Math.random() * 0.3) % 1) - 0.5), delay = Math.min(nth * 45, 700);
  const el = makeSVG("path", { d: tear, class: `drop ${allowed ? "allowed" : "denied"}` });
  if (!allowed) {
    const away = x < 80 ? -1 : 1;
    play(level, el, [
      { transform: at(x, -40), opacity: 0, easing: "linear" },
      { transform: at(x, -30), opacity: 1, offset: 0.06, easing: "cubic-bezier(.5, 0, .9, .6)" },
      { transform: at(x, 12), opacity: 1, offset: 0.4, easing: "cubic-bezier(.1, .5, .5, 1)" },
      { transform: at(x + away * 34, -26), opacity: 1, offset: 0.7, easing: "cubic-bezier(.5, 0, .9, .6)" },
      { transform: at(x + away * 62, 26), opacity: 0 },
    ], { duration: 1100, delay });
    return;
  }
  play(level, el, [
    { transform: at(x, -40), opacity: 0, easing: "linear" },
    { transform: at(x, -30), opacity: 1, offset: 0.1, easing: "cubic-bezier(.5, 0, .9, .6)" },
    { transform: at(x, surface), opacity: 1, offset: 0.8, easing: "ease-out" },
    { transform: at(x, surface + 14, 0.4), opacity: 0 },
  ], { duration: 620, delay });
  play(level, makeSVG("circle", { r: 5, class: "token" }), [
    { transform: at(80, 158), opacity: 0 }, { transform: at(80, 168), opacity: 1, offset: 0.2 }, { transform: at(80, 192), opacity: 0 },
  ], { duration: 520, delay: delay + 460, easing: "ease-in" });
}

// gain shows a token that comes back.
export function gain(level, surface) {
  if (calm.matches) return;
  play(level, makeSVG("circle", { r: 5, class: "token" }), [
    { transform: at(26, 2), opacity: 0 }, { transform: at(44, 8), opacity: 1, offset: 0.3, easing: "ease-in" }, { transform: at(50, surface), opacity: 0.2 },
  ], { duration: 560 });
}
