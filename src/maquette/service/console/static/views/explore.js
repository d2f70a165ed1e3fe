// Explore without SQL: choose groups, filters and what to compute; the SQL and the price are always in sight.

import * as api from "../api.js";
import { announce, field, h, options, replace } from "../dom.js";
import { literal, name } from "../editor.js";
import { answered, problem } from "../showing.js";
import { price } from "./ask.js";

const COUNT = "count(*)";

function written(table, chosen) {
  const measure = chosen.measure === COUNT ? COUNT : `avg(${name(chosen.measure)})`;
  const groups = chosen.groups.map(name);
  const conditions = chosen.filters.map(([column, relation, level]) => `${name(column)} ${relation} ${literal(table.columns.find((each) => each.name === column), level)}`);
  return [
    `SELECT ${[...groups, measure].join(", ")}`,
    `FROM ${name(table.name)}`,
    conditions.length && `WHERE ${conditions.join(" AND ")}`,
    groups.length && `GROUP BY ${groups.join(", ")}`,
  ]
    .filter(Boolean)
    .join("\n");
}

export async function explore(place, { table, query }) {
  const given = JSON.parse(query.get("where") ?? "[]").map(([column, level]) => [column, "=", level]);
  const named = table.columns.filter((column) => ["category", "boolean"].includes(column.kind) && column.size <= 30);
  const first = named.find((column) => !given.some(([each]) => each === column.name)) ?? table.columns[0];
  const chosen = { groups: query.get("groups")?.split(",").filter(Boolean) ?? [first.name], filters: given, measure: COUNT };
  const controls = h("section", { "aria-label": "What to show" });
  const shown = h("div", { "aria-live": "polite" });
  const free = new Set();

  async function refresh() {
    draw();
    const sql = written(table, chosen);
    try {
      const told = await api.explain(table.name, { sql });
      replace(controls.querySelector(".price"), price(told));
      if (told.free) await show();
      else replace(shown);
    } catch (error) {
      replace(shown, problem(error));
    }
  }

  async function show() {
    const sql = written(table, chosen);
    try {
      const answer = await api.ask(table.name, { sql });
      replace(shown, answered(answer, { table: table.name, sql, schema: table }, drill));
      chosen.groups.forEach((column) => free.add(column));
      announce("Shown.");
    } catch (error) {
      replace(shown, problem(error));
    }
  }

  function drill(row) {
    const next = named.find((column) => !chosen.groups.includes(column.name) && !chosen.filters.some(([each]) => each === column.name));
    chosen.filters.push(...chosen.groups.map((column, at) => [column, "=", row.groups[at]]));
    chosen.groups = next ? [next.name] : [];
    refresh();
  }

  function toggle(column) {
    const at = chosen.groups.indexOf(column);
    if (at >= 0) chosen.groups.splice(at, 1);
    else chosen.groups = [...chosen.groups, column].slice(-2);
    refresh();
  }

  function filtering() {
    const column = h("select", { onchange: () => replace(level, options(levels(column.value), null)) }, options(table.columns.filter((each) => each.levels).map((each) => each.name), null));
    const levels = (of) => table.columns.find((each) => each.name === of)?.levels ?? [];
    const relation = h("select", {}, options([["=", "is"], ["<>", "is not"]], "="));
    const level = h("select", {}, options(levels(column.value), null));
    const add = () => (chosen.filters.push([column.value, relation.value, level.value]), refresh());
    return h("div", { class: "row" }, field("Column", column), field("Condition", relation), field("Value", level), h("button", { type: "button", onclick: add }, "Add filter"));
  }

  function draw() {
    const numeric = table.columns.filter((column) => ["integer", "number"].includes(column.kind)).map((column) => [column.name, `average of ${column.name}`]);
    const measure = h("select", { onchange: () => ((chosen.measure = measure.value), refresh()) }, options([[COUNT, "number of rows"], ...numeric], chosen.measure));
    replace(
      controls,
      h("h2", {}, "Group by (one or two columns)"),
      h(
        "ul",
        { class: "chips" },
        table.columns.map((column) =>
          h("li", {}, h("button", { type: "button", class: "chip", "aria-pressed": String(chosen.groups.includes(column.name)), onclick: () => toggle(column.name) }, column.name, free.has(column.name) && h("span", { class: "tag" }, "◆ known"))),
        ),
      ),
      h("p", { class: "hint" }, "◆ known: the counts of this column alone are already released, so they are free."),
      h("div", { class: "row" }, field("Show", measure)),
      h("h2", {}, "Filters"),
      chosen.filters.length
        ? h("ul", { class: "chips" }, chosen.filters.map(([column, relation, level], at) => h("li", {}, h("button", { type: "button", class: "chip", "aria-label": `Remove filter ${column} ${relation} ${level}`, onclick: () => (chosen.filters.splice(at, 1), refresh()) }, `${column} ${relation} ${level} ✕`))))
        : h("p", { class: "soft" }, "All rows."),
      filtering(),
      h("pre", { tabindex: 0, role: "region", "aria-label": "The same question in SQL" }, written(table, chosen)),
      h("div", { class: "price", "aria-live": "polite" }),
      h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: show }, "Show"), h("a", { class: "button", href: `#/ask?${new URLSearchParams({ table: table.name, sql: written(table, chosen) })}` }, "Edit as SQL")),
    );
  }

  replace(place, h("h1", {}, `Explore ${table.name}`), h("div", { class: "two" }, controls, shown));
  await refresh();
  const known = await Promise.all(table.columns.map((column) => api.explain(table.name, { sql: written(table, { groups: [column.name], filters: [], measure: COUNT }) }).catch(() => null)));
  known.forEach((told, at) => told?.free && free.add(table.columns[at].name));
  if (free.size) draw();
  if (free.size) replace(controls.querySelector(".price"), price(await api.explain(table.name, { sql: written(table, chosen) })));
}
