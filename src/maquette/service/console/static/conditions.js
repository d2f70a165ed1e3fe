// A level of a column as a condition in SQL. Levels of ordered columns are bins, and a bin is written by its two ends.

import { literal, name } from "./names.js";

export const ORDERED = ["integer", "number", "date"];

export const relations = (column) => [["=", "is"], ["<>", "is not"], ...(ORDERED.includes(column.kind) ? [[">=", "is at least"], ["<=", "is at most"]] : [])];

export const relationWords = (relation) => ({ "=": "is", "<>": "is not", ">=": "is at least", "<=": "is at most" })[relation];

const MONTH = { Q1: "01", Q2: "04", Q3: "07", Q4: "10" };

// The first day of a level of a date column: 2023, 2023-Q1, 2023-02 or 2023-02-05.
function firstDay(level) {
  const [year, part, day] = level.split("-");
  return `${year}-${MONTH[part] ?? part ?? "01"}-${day ?? "01"}`;
}

// The ends of a bin as literals: [low, high, whether high belongs to it].
function ends(column, level) {
  if (column.kind === "integer") {
    const [, low, high] = /^(-?\d+)(?:-(-?\d+))?$/.exec(level);
    return [low, high ?? low, true];
  }
  if (column.kind === "number") {
    const [, low, high, close] = /^\[(\S+), (\S+)([)\]])$/.exec(level);
    return [low, high, close === "]"];
  }
  const at = column.levels.indexOf(level);
  const next = column.levels[at + 1];
  const last = next === undefined || next === "NULL";
  return [at === 0 ? `'${column.low}'` : `'${firstDay(level)}'`, last ? `'${column.high}'` : `'${firstDay(next)}'`, last];
}

export function condition(column, relation, level) {
  const called = name(column.name);
  if (level === "NULL" && column.nullable) return `${called} IS ${relation === "<>" ? "NOT " : ""}NULL`;
  if (!ORDERED.includes(column.kind)) return `${called} ${relation} ${literal(column, level)}`;
  const [low, high, closed] = ends(column, level);
  const upTo = `${called} ${closed ? "<=" : "<"} ${high}`;
  if (relation === ">=") return `${called} >= ${low}`;
  if (relation === "<=") return upTo;
  if (low === high) return `${called} ${relation} ${low}`;
  return relation === "<>" ? `NOT (${called} >= ${low} AND ${upTo})` : `${called} >= ${low} AND ${upTo}`;
}
