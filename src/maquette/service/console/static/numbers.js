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
  `${new Intl.NumberFormat("en", { maximumSignificantDigits: share < 0.1 ? 2 : 3 }).format(100 * share)}%`;

export const interval = (cell) => `${number(cell.low)} to ${number(cell.high)}`;

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
