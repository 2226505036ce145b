// Numbers and times as text.

export const plural = (n, word) => `${short(n)} ${word}${n === 1 ? "" : "s"}`;

// short writes a number so that it fits: 7, 12.5, 1.2M.
export function short(n) {
  if (Math.abs(n) >= 10000) return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n);
  return String(Math.round(n * 100) / 100);
}

const month = 2629746e3; // ms: the mean month, which stands for those of the calendar

export function duration(ms) {
  if (ms > 0 && ms % month === 0) return ms === month ? "month" : `${ms / month} months`;
  if (ms < 1000) return `${short(ms)} ms`;
  if (ms < 60e3 || ms < 120e3 && ms % 60e3 !== 0) return `${short(ms / 1000)} s`;
  if (ms < 7200e3) return `${short(ms / 60e3)} min`;
  if (ms < 172800e3) return `${short(ms / 3600e3)} h`;
  return `${short(ms / 86400e3)} days`;
}

export function micros(us) {
  if (us < 1000) return `${us.toFixed(us < 10 ? 1 : 0)} µs`;
  return `${(us / 1000).toFixed(us < 10000 ? 2 : 1)} ms`;
}

// rule is how a limit refills, in a few words.
export function rule(l) {
  const gain = `+${plural(l.rate, "token")}`;
  if (l.mode === "aligned" && l.interval_ms % month === 0) return `${gain} on the 1st of the month`;
  const every = `${gain} every ${duration(l.interval_ms)}`;
  return { continuous: every, stepped: `${every}, at once`, aligned: `${every} of the clock` }[l.mode];
}

export function clockTime(ms, digits = 3) {
  const d = new Date(ms), time = d.toLocaleTimeString("en-GB");
  return digits ? `${time}.${String(d.getMilliseconds()).padStart(3, "0")}` : time;
}

export const nameOf = (framework) => (framework === "http" ? "net/http" : framework);
