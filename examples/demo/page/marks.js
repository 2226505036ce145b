// Requests on the chart: a lane for each kind. What lies close together becomes one mark that is larger.
import { span } from "./past.js";
import { view } from "./view.js";

export const lane = (low, i) => low + 24 + i * 19;

const marks = {
  allowed(g, x, y, r) { g.beginPath(); g.arc(x, y, r, 0, 7); g.fill(); },
  denied(g, x, y, r) { g.beginPath(); g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x + r, y - r); g.lineTo(x - r, y + r); g.stroke(); },
  error(g, x, y, r) { g.beginPath(); g.moveTo(x, y - r); g.lineTo(x + r, y + r); g.lineTo(x - r, y + r); g.fill(); },
};

export function drawMarks(g, { left, right, low, x, now, inks }) {
  const perBin = (right - left) / (span / 100), group = Math.max(1, Math.ceil(9 / perBin)), sums = new Map();
  for (const [bin, b] of view.bins) {
    if (bin * 100 < now - span - 1000) { view.bins.delete(bin); continue; }
    const at = Math.floor(bin / group), sum = sums.get(at) ?? { allowed: 0, denied: 0, error: 0 };
    for (const kind in sum) sum[kind] += b[kind];
    sums.set(at, sum);
  }
  g.lineWidth = 2; g.lineCap = "round";
  for (const [at, sum] of sums) {
    const px = x((at + 0.5) * group * 100);
    if (px < left) continue;
    Object.keys(marks).forEach((kind, i) => {
      if (sum[kind] === 0) return;
      g.fillStyle = g.strokeStyle = inks[kind];
      marks[kind](g, Math.min(px, right), lane(low, i), Math.min(6, 2.6 + Math.log2(sum[kind]) * 0.6));
    });
  }
  g.lineCap = "butt";
}
