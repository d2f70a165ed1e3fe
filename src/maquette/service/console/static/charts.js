// Charts of answers, as SVG. Every number is drawn with its interval; how a number is known is shown by shape and words,
// never by colour alone. Each chart has a title for people who cannot see it, and the table is always beside it.

import { h, s } from "./dom.js";
import { interval, number, ticks } from "./numbers.js";

const BAR = 26;
const RIGHT = 76;

// Charts are drawn as wide as the screen has room for, so that their letters are never smaller than the page's.
const room = (most = 640) => Math.max(290, Math.min(most, document.documentElement.clientWidth - 62));

// The space for labels left of a chart: that of the longest, within limits.
const LETTER = 7.2;
const margin = (labels, width) => Math.max(44, Math.min(0.36 * width, 158, 12 + LETTER * Math.max(...labels.map((label) => label.length))));
const letters = (space) => Math.floor((space - 10) / LETTER);

const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// What makes a mark of a chart a button that looks inside it.
const drilling = (point) =>
  point.drill
    ? { tabindex: 0, role: "button", "aria-label": `${point.label}: show only these`, onclick: point.drill, onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), point.drill()) }
    : {};

// A picture; or a group where its parts can be clicked.
function frame(title, width, height, ...parts) {
  return h(
    "figure",
    { class: "chart" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, role: parts.flat(3).some((part) => part?.matches?.(".drill") || part?.querySelector?.(".drill")) ? "group" : "img", "aria-label": title, preserveAspectRatio: "xMinYMin meet" }, s("title", {}, title), ...parts),
  );
}

function extent(cells) {
  const lows = cells.map((cell) => Math.min(cell.low ?? cell.value, cell.value));
  const highs = cells.map((cell) => Math.max(cell.high ?? cell.value, cell.value));
  return [Math.min(0, ...lows), Math.max(...highs, 0) || 1];
}

// A whisker from low to high; a guess of the model has a dashed one and a hollow mark.
function whisker(cell, x, y) {
  const guess = cell.kind === "guess" ? "guess" : "promise";
  return s(
    "g",
    { class: `whisker ${guess}` },
    s("line", { x1: x(cell.low), x2: x(cell.high), y1: y, y2: y }),
    s("line", { x1: x(cell.low), x2: x(cell.low), y1: y - 4, y2: y + 4 }),
    s("line", { x1: x(cell.high), x2: x(cell.high), y1: y - 4, y2: y + 4 }),
    s("circle", { cx: x(cell.value), cy: y, r: 3.2 }),
  );
}

// points: [{label, value, low, high, kind, drill}]
export function bars(points, { title, format = number }) {
  const [low, high] = extent(points);
  const width = room();
  const left = margin(points.map((point) => point.label), width);
  const x = scale(low, high, left, width - RIGHT);
  const height = points.length * BAR + 34;
  const rows = points.map((point, at) => {
    const middle = at * BAR + BAR / 2 + 4;
    const zero = x(0);
    return s(
      "g",
      { class: point.drill && "drill", ...drilling(point) },
      s("title", {}, `${point.label}: ${format(point.value)} (${interval(point)})`),
      s("rect", { class: "hit", x: 0, y: middle - BAR / 2, width, height: BAR }),
      s("text", { class: "label", x: left - 8, y: middle + 4, "text-anchor": "end" }, clip(point.label, letters(left))),
      s("rect", { class: point.kind === "guess" ? "bar guess" : "bar", x: Math.min(zero, x(point.value)), y: middle - 7, width: Math.abs(x(point.value) - zero), height: 14 }),
      whisker(point, x, middle),
      s("text", { class: "value", x: width - RIGHT + 8, y: middle + 4 }, format(point.value)),
    );
  });
  const axis = ticks(low, high, Math.min(5, Math.floor((width - left - RIGHT) / 60))).map((at) =>
    s("g", { class: "tick" }, s("line", { x1: x(at), x2: x(at), y1: 0, y2: height - 26 }), s("text", { x: x(at), y: height - 8, "text-anchor": "middle" }, format(at))),
  );
  return frame(title, width, height, s("g", {}, axis), s("g", {}, rows));
}

// Ordered groups: a line through the values, a band from low to high.
export function line(points, { title, format = number }) {
  const width = room();
  const height = 260;
  const bottom = height - 34;
  const [low, high] = extent(points);
  const x = scale(0, Math.max(points.length - 1, 1), 62, width - 24);
  const y = scale(low, high, bottom, 12);
  const upper = points.map((point, at) => `${x(at)},${y(point.high)}`);
  const lower = points.map((point, at) => `${x(at)},${y(point.low)}`).reverse();
  const longest = Math.min(10, Math.max(...points.map((point) => point.label.length)));
  const every = Math.ceil(points.length / Math.max(2, Math.floor((width - 86) / (LETTER * longest + 14))));
  const step = (width - 86) / Math.max(points.length - 1, 1);
  return frame(
    title,
    width,
    height,
    ticks(low, high).map((at) => s("g", { class: "tick" }, s("line", { x1: 62, x2: width - 24, y1: y(at), y2: y(at) }), s("text", { x: 56, y: y(at) + 4, "text-anchor": "end" }, format(at)))),
    s("polygon", { class: "band", points: [...upper, ...lower].join(" ") }),
    s("polyline", { class: "line", points: points.map((point, at) => `${x(at)},${y(point.value)}`).join(" ") }),
    points.map((point, at) =>
      s("g", { class: `dot${point.kind === "guess" ? " guess" : ""}${point.drill ? " drill" : ""}`, ...drilling(point) }, s("title", {}, `${point.label}: ${format(point.value)} (${interval(point)})`), point.drill && s("rect", { class: "hit", x: x(at) - step / 2, y: 4, width: step, height: bottom - 4 }), step >= 8 && s("line", { x1: x(at), x2: x(at), y1: y(point.low), y2: y(point.high) }), s("circle", { cx: x(at), cy: y(point.value), r: step >= 8 ? 3.2 : 2 })),
    ),
    points.map((point, at) => at % every === 0 && s("text", { class: "label", x: x(at), y: height - 12, "text-anchor": "middle" }, clip(point.label, 10))),
  );
}

// Two groups: shade by value; a bar under the number is as wide as the interval; a guess has a dashed frame.
export function heat(points, rows, columns, { title, format = number }) {
  const most = Math.max(...points.map((point) => Math.abs(point.value)), 1e-9);
  const left = margin(rows, room());
  const cell = Math.max(34, Math.min(84, (room() - left - 8) / columns.length));
  const tall = rows.length > 24 ? 13 : 30; // many rows: shades and intervals, without numbers
  const every = Math.ceil((14 / tall) * 1.2);
  const width = left + cell * columns.length + 8;
  const height = tall * rows.length + 40;
  const marks = points.map((point) => {
    const from = left + columns.indexOf(point.column) * cell;
    const top = tall * rows.indexOf(point.row);
    const share = Math.max(0, Math.min(1, point.value / most));
    const half = Math.min(1, (point.high - point.low) / 2 / most);
    return s(
      "g",
      { class: `cell${point.kind === "guess" ? " guess" : ""}${point.drill ? " drill" : ""}`, ...drilling({ ...point, label: `${point.row}, ${point.column}` }) },
      s("title", {}, `${point.row}, ${point.column}: ${format(point.value)} (${interval(point)})`),
      s("rect", { class: "shade", x: from + 1, y: top + 1, width: cell - 2, height: tall - 2, "fill-opacity": (0.05 + 0.4 * share).toFixed(3) }),
      point.kind === "guess" && tall === 30 && s("rect", { class: "frame", x: from + 2.5, y: top + 2.5, width: cell - 5, height: tall - 5 }),
      point.drill && s("rect", { class: "hit", x: from + 1, y: top + 1, width: cell - 2, height: tall - 2 }),
      cell >= 46 && tall === 30 && s("text", { x: from + cell / 2, y: top + 17, "text-anchor": "middle" }, format(point.value)),
      s("rect", { class: "error", x: from + cell / 2 - (half * (cell - 10)) / 2, y: top + tall - 6, width: half * (cell - 10), height: tall === 30 ? 2 : 1 }),
    );
  });
  return frame(
    title,
    width,
    height,
    rows.map((label, at) => (at % every === 0 || tall === 30) && s("text", { class: "label", x: left - 8, y: tall * (at + 0.5) + 4, "text-anchor": "end" }, clip(label, letters(left)))),
    columns.map((label, at) => s("text", { class: "label", x: left + cell * (at + 0.5), y: height - 18, "text-anchor": "middle" }, clip(label, Math.max(3, Math.floor(cell / 7))))),
    marks,
    tall < 30 && points.some((point) => point.kind === "guess") && s("g", { class: "cell guess" }, s("rect", { class: "frame", x: left - 1, y: 1, width: cell * columns.length + 2, height: tall * rows.length })),
  );
}

// How much of the budget is spent: a bar with its numbers in words.
export function gauge(spent, limit, words) {
  const share = limit > 0 ? Math.min(1, spent / limit) : 0;
  return h(
    "div",
    { class: "gauge" },
    h("div", { class: "gauge-bar", role: "meter", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share), "aria-label": words }, s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": true }, s("rect", { class: "rest", width: 100, height: 8 }), s("rect", { class: "spent", width: 100 * share, height: 8 }))),
    h("p", { class: "gauge-words" }, words),
  );
}

// What became of each question, in order: measured high, tested middle, free low; a mark of its own for each.
const LEVELS = { measured: [14, "Measured: paid"], hypothesis: [40, "The model, tested"], derived: [66, "Derived: free"], cache: [92, "Recorded: free"] };

export function timeline(events, { title }) {
  const width = room(500);
  const x = scale(0, Math.max(events.length - 1, 1), 136, width - 16);
  return frame(
    title,
    width,
    112,
    Object.entries(LEVELS).map(([, [y, words]]) => s("g", { class: "tick" }, s("line", { x1: 128, x2: width - 10, y1: y, y2: y }), s("text", { class: "label", x: 122, y: y + 4, "text-anchor": "end" }, words))),
    events.map((event, at) => {
      const [y] = LEVELS[event.source] ?? LEVELS.cache;
      const paid = event.source === "measured";
      const mark = paid ? s("rect", { class: "mark paid", x: x(at) - 4, y: y - 4, width: 8, height: 8 }) : s("circle", { class: "mark", cx: x(at), cy: y, r: 4 });
      return s("g", {}, s("title", {}, event.words), mark);
    }),
  );
}
