// Explore without SQL: choose groups, filters and what to compute; the SQL and the price are always in sight.

import * as api from "../api.js";
import { announce, field, h, options, replace, turns } from "../dom.js";
import { condition, relations, relationWords } from "../conditions.js";
import { choosing } from "../levels.js";
import { name } from "../names.js";
import { epsilon } from "../numbers.js";
import { answered, price, problem } from "../showing.js";

const COUNT = "count(*)";

function written(table, chosen) {
  const measure = chosen.measure === COUNT ? COUNT : `avg(${name(chosen.measure)})`;
  const groups = chosen.groups.map(name);
  const conditions = chosen.also ? [`(${chosen.also})`] : [];
  conditions.push(...chosen.filters.map(([column, relation, level]) => condition(table.columns.find((each) => each.name === column), relation, level)));
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
  const chosen = { groups: query.get("groups")?.split(",").filter(Boolean) ?? [first.name], filters: given, measure: COUNT, also: query.get("also") };
  const controls = h("section", { "aria-label": "What to show" });
  const shown = h("div", { "aria-live": "polite" });
  const free = new Set();

  // Draw again, and let the keyboard go on where it was.
  function keeping(drawing) {
    const held = controls.contains(document.activeElement) && (document.activeElement.dataset.key ?? "add");
    drawing();
    if (held) controls.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus();
  }

  const turn = turns();
  async function refresh() {
    const last = turn();
    keeping(draw);
    const sql = written(table, chosen);
    try {
      const told = await api.explain(table.name, { sql });
      if (!last()) return;
      replace(controls.querySelector(".price"), price(told));
      if (told.free) await show();
      else replace(shown, unpaid(told.cost));
    } catch (error) {
      if (last()) replace(shown, problem(error));
    }
  }

  const unpaid = (cost) =>
    h(
      "section",
      { class: "unpaid" },
      h("h2", {}, "Not known yet"),
      h("p", {}, "Nobody has paid for this view. Nothing is spent before you choose to show it."),
      h("div", { class: "row" }, h("button", { type: "button", onclick: show }, `Show it for ${epsilon(cost)}`)),
    );

  async function show() {
    const last = turn();
    const sql = written(table, chosen);
    try {
      const answer = await api.ask(table.name, { sql });
      if (!last()) return;
      replace(shown, answered(answer, { table: table.name, sql, schema: table }, drill));
      const told = await api.explain(table.name, { sql });
      if (!last()) return;
      replace(controls.querySelector(".price"), price(told));
      chosen.groups.forEach((column) => free.add(column));
      announce("Shown.");
    } catch (error) {
      if (last()) replace(shown, problem(error));
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

  // Made once: a filter that is half chosen stays so, whatever else is clicked.
  const filter = filtering();

  function filtering() {
    const find = (called) => table.columns.find((each) => each.name === called);
    const value = h("div");
    let level = null;
    const column = h("select", { onchange: () => follow() }, options(table.columns.map((each) => each.name), null));
    const relation = h("select", {});
    const follow = () => {
      const facts = find(column.value);
      replace(relation, options(relations(facts), "="));
      level = choosing(facts.levels);
      replace(value, field("Value", level.control), level.offered);
    };
    const add = (event) => {
      event.preventDefault();
      chosen.filters.push([column.value, relation.value, level.read()]);
      follow();
      refresh();
    };
    follow();
    return h("form", { onsubmit: add }, h("div", { class: "filter" }, field("Column", column), field("Condition", relation), value), h("div", { class: "row" }, h("button", { "data-key": "add" }, "Add filter")));
  }

  const chips = h("ul", { class: "chips" });
  const columns = () =>
    replace(
      chips,
      table.columns.map((column) =>
        h("li", {}, h("button", { type: "button", "data-key": `by ${column.name}`, class: free.has(column.name) ? "chip known" : "chip", "aria-pressed": String(chosen.groups.includes(column.name)), onclick: () => toggle(column.name) }, column.name, free.has(column.name) && h("span", { class: "tag" }, "◆ known"))),
      ),
    );

  function draw() {
    const numeric = table.columns.filter((column) => ["integer", "number"].includes(column.kind)).map((column) => [column.name, `average of ${column.name}`]);
    const measure = h("select", { "data-key": "measure", onchange: () => ((chosen.measure = measure.value), refresh()) }, options([[COUNT, "number of rows"], ...numeric], chosen.measure));
    replace(
      controls,
      h("h2", {}, "Group by (one or two columns)"),
      columns(),
      h("p", { class: "hint" }, "◆ known: counts of this column alone are answered already, so they are free. Others cost what the line below says."),
      h("div", { class: "row" }, field("Show", measure)),
      h("h2", {}, "Filters"),
      chosen.also && h("ul", { class: "chips" }, h("li", {}, h("button", { type: "button", class: "chip", "aria-label": `Remove filter ${chosen.also}`, onclick: () => ((chosen.also = null), refresh()) }, `${chosen.also} ✕`))),
      chosen.filters.length
        ? h("ul", { class: "chips" }, chosen.filters.map(([column, relation, level], at) => h("li", {}, h("button", { type: "button", class: "chip", "aria-label": `Remove filter ${column} ${relationWords(relation)} ${level}`, onclick: () => (chosen.filters.splice(at, 1), refresh()) }, `${column} ${relationWords(relation)} ${level} ✕`))))
        : !chosen.also && h("p", { class: "soft" }, "All rows."),
      filter,
      h("pre", { tabindex: 0, role: "region", "aria-label": "The same question in SQL" }, written(table, chosen)),
      h("div", { class: "price", "aria-live": "polite" }),
      h("div", { class: "row middle" }, h("button", { type: "button", class: "primary", onclick: show }, "Show"), h("a", { class: "button", href: `#/ask?${new URLSearchParams({ table: table.name, sql: written(table, chosen) })}` }, "Edit as SQL")),
    );
  }

  replace(place, h("h1", {}, `Explore ${table.name}`), h("div", { class: "split left" }, controls, shown));
  await refresh();
  const known = await api.doubts(table.name).catch(() => []); // one request, however many columns
  known.forEach((each) => each.free && free.add(each.column));
  if (chips.contains(document.activeElement)) keeping(columns);
  else columns();
}
