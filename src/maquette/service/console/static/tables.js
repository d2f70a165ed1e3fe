// Plain tables.

import { h } from "./dom.js";

// rows: arrays of texts, numbers or elements; numbers: the columns to align right; wide: those that need room for words.
export function listing(titles, rows, { caption, numbers = [], wide = [], empty = "Nothing yet." }) {
  if (!rows.length) return h("p", { class: "soft" }, empty);
  const style = (at) => ({ class: numbers.includes(at) ? "number" : wide.includes(at) && "wide" });
  return h(
    "div",
    {},
    h("p", { class: "caption" }, caption),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, titles.map((title, at) => h("th", { scope: "col", ...style(at) }, title)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => h("td", style(at), cell))))),
      ),
    ),
  );
}

// facts: [[term, value], ...]
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.map(([term, value]) => h("div", { class: "fact" }, h("dt", {}, term), h("dd", {}, value))));
