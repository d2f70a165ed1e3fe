// Numbers as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const tiny = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "scientific" });

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return whole.format(value);
  if (value !== 0 && Math.abs(value) < 1e-4) return tiny.format(value).replace("E", "e");
  return short.format(value);
}

export const percent = (share) =>
  share > 0 && share < 1e-4 ? "< 0.01%" : `${new Intl.NumberFormat("en", { maximumSignificantDigits: share < 0.1 ? 2 : 3 }).format(100 * share)}%`;

// An interval of a whole number is rounded outwards, so that it says no more than it may.
export function interval({ value, low, high }) {
  if (!Number.isInteger(value)) return `${number(low)} to ${number(high)}`;
  return `${number(Number.isFinite(low) ? Math.floor(low) : low)} to ${number(Number.isFinite(high) ? Math.ceil(high) : high)}`;
}

export const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "");

export const epsilon = (loss) => (loss && typeof loss.epsilon === "number" ? `epsilon ${number(loss.epsilon)}` : "–");

// Round steps that cover a range: the ticks of an axis.
export function ticks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return found;
}
