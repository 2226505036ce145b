// What pictures of several replicas have in common.

import { draw, label } from "./dom.js";

// box draws a box with a name.
export function box(x, y, width, height, name) {
  const rect = draw("rect", { x, y, width, height, rx: 10 });
  return draw("g", { class: "box" }, rect, label(x + width / 2, y + 19, name, "middle strong"));
}

export const wire = (d) => draw("path", { class: "wire", d });

// count counts a chapter's decisions up to t, of services that begin with a name,
// with a status. All that is neither 200 nor 429 counts as 503.
export function count(chapter, t, service, status) {
  const seen = (d) => (d.status === 200 || d.status === 429 ? d.status : 503);
  return chapter.decisions.filter((d) => d.show <= t && d.service.startsWith(service) && seen(d) === status).length;
}
