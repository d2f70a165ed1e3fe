// Model: pictures of what is publicly known, how sure it is, how the session's questions went, and synthetic rows.

import * as api from "../api.js";
import { heat, line, bars, timeline } from "../charts.js";
import { field, h, options, replace, turns } from "../dom.js";
import { name } from "../names.js";
import { number, percent } from "../numbers.js";
import { problem, tryingIn } from "../showing.js";
import { listing } from "../tables.js";

const ORDERED = ["integer", "number", "date"];

function oneWay(table, picture) {
  const column = table.columns.find((each) => each.name === picture.columns[0]);
  const points = picture.cells.map((cell) => ({ label: cell.levels[0], ...cell }));
  const title = `${column.name}: share of the rows, with intervals`;
  return points.length > 6 && ORDERED.includes(column.kind) ? line(points, { title, format: percent }) : bars(points.slice(0, 40), { title, format: percent });
}

function twoWay(picture) {
  const points = picture.cells.map((cell) => ({ row: cell.levels[0], column: cell.levels[1], ...cell }));
  const names = (at) => [...new Set(picture.cells.map((cell) => cell.levels[at]))];
  return heat(points, names(0), names(1), { title: `${picture.columns.join(" by ")}: share of the rows, with intervals`, format: percent });
}

// The certified error of a picture: half of its widest interval.
function certified({ cells }) {
  const half = Math.max(0, ...cells.map((cell) => (cell.high - cell.low) / 2));
  if (!cells.length) return "";
  return h("strong", {}, cells.some((cell) => cell.kind === "guess") ? `At most ${percent(half)} of the rows off, where nothing was measured.` : `Certified: every share is within ${percent(half)} of the rows.`);
}

export async function model(place, { table }) {
  const shown = h("div", { "aria-live": "polite" });
  const names = table.columns.map((column) => column.name);
  const second = h("select", { onchange: draw }, options([["", "none"], ...names], ""));

  const turn = turns();
  async function draw() {
    const last = turn();
    const columns = [first.value, second.value].filter((column, at) => column && (at === 0 || column !== first.value));
    try {
      const names = columns.map(name).join(", ");
      const sql = `SELECT ${names}, count(*) FROM ${name(table.name)} GROUP BY ${names}`;
      const picture = source.value ? await api.releasePicture(table.name, source.value, sql) : await api.picture(table.name, columns);
      if (!last()) return;
      replace(
        shown,
        h("p", {}, picture.words, " ", certified(picture)),
        picture.cells.length && (columns.length === 1 ? oneWay(table, picture) : twoWay(picture)),
      );
    } catch (error) {
      if (last()) replace(shown, problem(error));
    }
  }

  const [events, releases, doubts] = await Promise.all([api.transcript(table.name), api.releases(table.name), api.doubts(table.name)]);
  const first = h("select", { onchange: draw }, options(names, doubts.at(-1)?.column ?? names[0])); // the column that is known best
  const known = doubts.some((doubt) => doubt.width !== null);
  const source = h("select", { onchange: draw }, options([["", "answers of the session"], ...releases.map((release) => [release.id, `release ${release.id}`])], known ? "" : releases.at(-1)?.id ?? ""));
  replace(
    place,
    h("h1", {}, `What is publicly known of ${table.name}`),
    h("section", {}, h("h2", {}, "Pictures of the model"), h("p", { class: "soft" }, "Drawn from what was released already: looking costs nothing."), h("div", { class: "row" }, field("Known from", source), field("Column", first), field("By", second)), shown),
    h("div", { class: "two" }, h("section", {}, h("h2", {}, "Where it is least certain"), listing(["column", "widest interval"], doubts.map((doubt) => [doubt.column, doubt.width === null ? "not measured yet" : `± ${percent(doubt.width)} of the rows`]), { caption: "Columns by their least certain level in the session, unmeasured ones first", numbers: [1] })),
    h("section", {}, h("h2", {}, "Easy and hard questions"), events.length ? timeline(events.slice(0, 200).reverse(), { title: "How each question was answered, oldest first" }) : h("p", { class: "soft" }, "No questions yet."), events.length > 0 && h("p", { class: "hint" }, "Oldest on the left. Hard questions (filled squares) had to be measured; easy ones (circles) followed from what was known."))),
    h(
      "section",
      {},
      h("h2", {}, "Synthetic rows"),
      releases.length ? releases.map((release) => synthetic(table.name, release)) : h("p", { class: "soft" }, "No release yet. A custodian makes one under Custodian; its synthetic rows can then be seen and downloaded here."),
    ),
  );
  await draw();
}

function synthetic(table, release) {
  const rows = h("div");
  const look = tryingIn(rows)(async () => {
    const sample = await api.sample(table, release.id, 20);
    rows.className = "unbroken";
    replace(rows, listing(sample.columns, sample.rows.map((row) => row.map((value) => (/^-?\d+\.\d+$/.test(value) ? number(Number(value)) : value))), { caption: "Twenty invented rows: no row of the private table is among them by design" }));
  });
  const download = (format) => h("a", { class: "button", href: api.sampleAddress(table, release.id, 10000, format), download: `${table}-synthetic.${format}` }, `10,000 rows as ${format === "csv" ? "CSV" : "Parquet"}`);
  return h("div", {}, h("h3", {}, release.title), h("div", { class: "row" }, h("button", { type: "button", onclick: look }, "Look at 20 rows"), download("csv"), download("parquet")), rows);
}
