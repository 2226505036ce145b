// Frames are drawn only while something moves. A painter draws, and returns in how many ms it has to draw again: 0 for
// the next frame, Infinity for not before someone calls wake.

const painters = [];
let frame = 0, timer = 0;

export function onFrame(painter) { painters.push(painter); }

export function wake() {
  clearTimeout(timer);
  timer = 0;
  frame ||= requestAnimationFrame(paint);
}

function paint(time) {
  frame = 0;
  const wait = painters.reduce((least, painter) => Math.min(least, painter(time)), Infinity);
  if (frame) return;
  if (wait < 17) wake();
  else if (wait < Infinity) timer = setTimeout(wake, Math.min(wait, 3600e3));
}
