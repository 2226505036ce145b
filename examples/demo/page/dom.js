// The page's elements.

export const $ = (id) => document.getElementById(id);

// make builds an element. Text goes in as text, never as markup.
export function make(tag, { class: name, text, ...attributes } = {}, ...children) {
  const el = document.createElement(tag);
  if (name) el.className = name;
  if (text !== undefined) el.textContent = text;
  for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
  el.append(...children);
  return el;
}

export function makeSVG(tag, attributes = {}, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) el.setAttribute(k, v);
  el.append(...children);
  return el;
}

// setText and setAttr touch the DOM only when something changed: they run in every frame.
export function setText(el, text) { if (el.textContent !== text) el.textContent = text; }
export function setAttr(el, name, value) { if (el.getAttribute(name) !== value) el.setAttribute(name, value); }

// calm tells whether the visitor wants nothing to move.
export const calm = matchMedia("(prefers-reduced-motion: reduce)");
