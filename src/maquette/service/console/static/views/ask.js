// Ask: write SQL, see price and route before asking, see the answer with its intervals; history and saved questions.

import * as api from "../api.js";
import { announce, field, h, later, replace, turns } from "../dom.js";
import { editor } from "../editor.js";
import { name } from "../names.js";
import { sentence } from "../numbers.js";
import { answered, price, problem } from "../showing.js";

const SAVED = "maquette-saved-questions";

const saved = () => JSON.parse(localStorage.getItem(SAVED) ?? "[]");

const keep = (questions) => localStorage.setItem(SAVED, JSON.stringify(questions.slice(0, 200)));

const first = (table) => {
  const grouping = table.columns.find((column) => column.size <= 12) ?? table.columns[0];
  return `SELECT ${name(grouping.name)}, count(*)\nFROM ${table.name}\nGROUP BY ${name(grouping.name)}`;
};

// A question that Explore can go on from: one SELECT of one table. Its condition comes along.
function simple(sql) {
  const [, where] = /^\s*SELECT\b(?:(?!\bSELECT\b|\bJOIN\b|\bHAVING\b|\bUNION\b|;).)*?\bFROM\s+\S+\s*?(?:\sWHERE\s((?:(?!\bSELECT\b|\bHAVING\b|\bUNION\b|;).)+?))?(?:\sGROUP\s+BY\s[^;]*?)?(?:\sORDER\s+BY\s[^;]*?)?(?:\sLIMIT\s+\d+)?\s*;?\s*$/is.exec(sql) ?? [null, null];
  return where === null ? null : { where: where?.trim() };
}

export async function ask(place, { table, query }) {
  const shown = h("div", { "aria-live": "polite" });
  const costs = h("div", { class: "price", "aria-live": "polite" });
  const alpha = h("input", { type: "number", min: 0, max: 1, step: "any", placeholder: "as the session", oninput: () => explain(writing.text()) });
  const most = h("input", { type: "number", min: 0, step: "any", placeholder: "no limit", oninput: () => explain(writing.text()) });
  const settings = () => ({ ...(alpha.value && { alpha: Number(alpha.value) }), ...(most.value && { max_cost: Number(most.value) }) });
  const button = h("button", { type: "button", class: "primary", onclick: () => run() }, "Ask");

  const turn = turns();
  const explain = later(350, async (sql) => {
    const last = turn();
    if (!sql.trim()) return replace(costs);
    try {
      const told = await api.explain(table.name, { sql, ...settings() });
      if (last()) replace(costs, price(told, most.value ? Number(most.value) : null));
    } catch (error) {
      if (last()) replace(costs, h("span", { class: "badge refused" }, "Not yet"), h("span", {}, sentence(error.happened ?? error.message)));
    }
  });

  async function run() {
    const sql = writing.text();
    button.disabled = true;
    try {
      const answer = await api.ask(table.name, { sql, ...settings() });
      const plain = simple(sql);
      const drill = (row) => (location.hash = `#/explore?${new URLSearchParams({ table: table.name, where: JSON.stringify(answer.groups.map((column, at) => [column, row.groups[at]])), ...(plain.where && { also: plain.where }) })}`);
      replace(shown, answered(answer, { table: table.name, sql, schema: table, asked: true }, plain && drill));
      announce(`Answered: ${answer.rows.length} rows.`);
      remember();
      explain(sql);
    } catch (error) {
      replace(shown, problem(error));
    } finally {
      button.disabled = false;
    }
  }

  // What was refused is about the question as it was.
  function changed(sql) {
    shown.querySelector(":scope > .problem")?.remove();
    explain(sql);
  }

  const writing = editor({ table, text: query.get("sql") ?? first(table), onChange: changed, onRun: run });
  const past = h("ul", { class: "history" });
  const sought = h("input", { type: "search", oninput: () => recall() });
  let asked = [];
  const kept = h("ul", { class: "history" });

  const line = (sql, words, extra = null) =>
    h("li", {}, h("button", { type: "button", class: "link", onclick: () => (writing.set(sql), writing.focus()) }, sql.replace(/\s+/g, " ").slice(0, 120)), h("div", { class: "soft" }, words), extra);

  async function remember() {
    asked = await api.transcript(table.name);
    recall();
  }

  function recall() {
    const events = asked.filter((event) => event.sql.toLowerCase().includes(sought.value.toLowerCase()));
    replace(past, events.length ? events.slice(0, 100).map((event) => line(event.sql, event.words)) : h("li", { class: "soft" }, "Nothing yet."));
  }

  function list() {
    const questions = saved().filter((each) => each.table === table.name);
    const drop = (sql) => h("button", { type: "button", class: "link", onclick: () => (keep(saved().filter((each) => each.sql !== sql)), list()) }, "forget");
    replace(kept, questions.length ? questions.map((each) => line(each.sql, "", drop(each.sql))) : h("li", { class: "soft" }, "None saved."));
  }

  const save = () => {
    keep([{ table: table.name, sql: writing.text() }, ...saved().filter((each) => each.sql !== writing.text())]);
    list();
    announce("Saved in this browser.");
  };

  replace(
    place,
    h("h1", {}, `Ask ${table.name}`),
    h("p", { class: "soft" }, "Counts, sums, averages and more, in SQL. The price is shown before you ask."),
    h(
      "div",
      { class: "split" },
      h(
        "div",
        {},
        h(
          "section",
          { "aria-label": "Your question" },
          writing.element,
          costs,
          h("div", { class: "row middle" }, button, h("span", { class: "soft keys" }, "or Ctrl + Enter"), h("button", { type: "button", onclick: save }, "Save question")),
          h("details", {}, h("summary", {}, "Precision and limits of this question"), h("div", { class: "row" }, field("alpha: largest error, as a share of the rows", alpha), field("max_cost: most epsilon to spend", most))),
        ),
        shown,
      ),
      h("aside", { "aria-label": "Columns and questions" }, columns(table, (column) => writing.insert(name(column))), h("section", {}, h("h2", {}, "Saved"), kept), h("section", {}, h("h2", {}, "History"), field("Search", sought), past)),
    ),
  );
  explain(writing.text());
  list();
  await remember();
  if (query.get("run") === "1") await run();
}

const columns = (table, write) =>
  h(
    "section",
    {},
    h("h2", {}, "Columns"),
    h("p", { class: "hint" }, "Choose one to write it into your question."),
    h("ul", { class: "history" }, table.columns.map((column) => h("li", {}, h("button", { type: "button", class: "link", onclick: () => write(column.name) }, column.name), " ", h("span", { class: "soft" }, column.words)))),
  );
