// Colours of buckets. An owner keeps its colour for as long as it is to be seen.
import { view } from "./view.js";

const colours = 9; // 0 is everybody's
const taken = new Map(); // id → colour

// colourOf is the number of an owner's colour.
export function colourOf(id, state) {
  if (taken.has(id)) return taken.get(id);
  for (const old of taken.keys()) {
    if (taken.size >= colours - 1 && !view.buckets.has(old) && !view.past.has(old)) taken.delete(old);
  }
  const used = new Set(taken.values());
  let colour = 0;
  if (state.replica || state.user) {
    colour = 1 + [...Array(colours - 1).keys()].findIndex((i) => !used.has(i + 1));
    if (colour === 0) colour = 1 + taken.size % (colours - 1); // more than there are colours
  }
  taken.set(id, colour);
  return colour;
}

// ownerOf is whose bucket it is, in words.
export function ownerOf(state) {
  const by = view.settings?.key, whose = by === "user" ? state.user || state.key : by === "ip" ? `${state.user}’s address` : "everybody";
  if (!state.replica) return whose;
  return by === "client" ? `replica ${state.replica}` : `replica ${state.replica}, ${whose}`;
}
