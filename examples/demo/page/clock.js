// The server's clock: times of buckets and requests are its.

let offset = 0;

export const serverNow = () => performance.now() + offset;

export function setClock(now) { offset = now - performance.now(); }

// heardAt corrects the clock: nothing can be heard before it was said.
export function heardAt(at) { offset = Math.max(offset, at - performance.now()); }
