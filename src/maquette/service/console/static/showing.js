// An answer on the page: what kind of number it is, the chart that fits its shape, the table, and ways to take it along.

import { bars, heat, line } from "./charts.js";
import { announce, h, replace } from "./dom.js";
import { epsilon, interval, number, percent, sentence } from "./numbers.js";

const KINDS = {
  promise: ["promise", "Promised", "The interval holds at the stated confidence."],
  guess: ["guess", "Guess", "The model's number, without a promise. It was not measured: what is left to spend does not buy it."],
  wider: ["promise", "Wider", "Wider than asked for, because the budget cannot pay for more. The interval itself holds."],
  cached: ["cached", "Recorded", "Given before, and given again for nothing: the same bytes."],
};

export const badge = (kind) => {
  const [style, word, words] = KINDS[kind] ?? KINDS.promise;
  return h("span", { class: `badge ${style}`, title: words }, word);
};

export function problem(error) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", { class: "happened" }, sentence(error.happened ?? error.message)),
    error.expected && h("p", {}, sentence(`Expected: ${error.expected}`)),
    error.advice && h("p", {}, sentence(error.advice)),
  );
}

// What a question would cost, as `explain` tells it; `most` is the limit that its writer set.
export function price(told, most = null) {
  if (!told) return [];
  const wide = told.halfWidth > 0 && told.halfWidth < 0.5 ? ` Counts within ${percent(told.halfWidth)} of the rows.` : "";
  const words = h("span", {}, `${sentence(told.words)}${wide}`);
  if (told.free) return [h("span", { class: "badge free" }, "Free"), words];
  const above = most !== null && told.cost.epsilon > most;
  return [h("span", { class: `badge ${above ? "refused" : "costs"}` }, `${above ? "Above your limit: " : "Costs "}${epsilon(told.cost)}`), words];
}

const chartable = (answer) => answer.rows.length > 1 && answer.columns.length > 0 && answer.rows.length <= 400;

// Handlers that show what was refused in `said`, instead of failing silently. A button that is still at work says so,
// and does nothing when it is pressed again.
export const tryingIn = (said) => (act) => async (event) => {
  event?.preventDefault?.();
  const button = event?.submitter ?? event?.currentTarget;
  if (button?.getAttribute("aria-busy")) return;
  button?.setAttribute("aria-busy", "true");
  try {
    replace(said);
    await act(event);
  } catch (error) {
    replace(said, problem(error));
    said.scrollIntoView({ block: "nearest" });
  } finally {
    button?.removeAttribute("aria-busy");
  }
};

// Only groups that are columns of the table can be looked into: a level is then a condition.
const drillable = (answer, schema) => answer.groups.every((group) => schema?.columns.some((column) => column.name === group));

function points(answer, measure, drill) {
  return answer.rows.map((row) => ({
    label: row.groups.join(", ") || answer.columns[measure],
    ...row.cells[measure],
    drill: drill ? () => drill(row) : null,
  }));
}

const LEGEND = {
  bars: "The line across the end of a bar is its interval.",
  line: "The band and the line through a point are its interval.",
  heat: "The line under a number is as wide as its interval, on the scale where the strongest cell fills its width.",
};

// A chart with its legend; where an answer has several, each says which number it shows.
const explained = (figure, form, kinds, drill, named = null) => {
  if (named) figure.prepend(h("p", { class: "named" }, named));
  const guess = kinds.includes("guess") ? " Hollow, dashed marks are guesses of the model." : "";
  figure.append(h("figcaption", { class: "soft" }, `${LEGEND[form]}${guess}${drill ? " Choose a mark to look inside it." : ""}`));
  return figure;
};

function chart(answer, measure, table, asked) {
  const drill = drillable(answer, table) ? asked : null;
  const kinds = answer.rows.map((row) => row.cells[measure].kind);
  const named = answer.columns.length > 1 ? answer.columns[measure] : null;
  const title = `${answer.columns[measure]} by ${answer.groups.join(" and ")}, with intervals`;
  if (answer.groups.length === 2) {
    const cells = answer.rows.map((row) => ({ row: row.groups[0], column: row.groups[1], ...row.cells[measure], drill: drill ? () => drill(row) : null }));
    const names = (at) => [...new Set(answer.rows.map((row) => row.groups[at]))];
    return explained(heat(cells, names(0), names(1), { title }), "heat", kinds, drill, named);
  }
  const column = table?.columns.find((each) => each.name === answer.groups[0]);
  const ordered = answer.groups.length === 1 && ["integer", "number", "date"].includes(column?.kind);
  const form = ordered && answer.rows.length > 6 ? "line" : "bars";
  return explained((form === "line" ? line : bars)(points(answer, measure, drill), { title }), form, kinds, drill, named);
}

function table(answer) {
  const numbers = answer.columns.flatMap((title) => [h("th", { scope: "col", class: "number" }, title), h("th", { scope: "col", class: "number" }, "interval")]);
  return h(
    "div",
    { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "The answer as a table" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, answer.groups.map((title) => h("th", { scope: "col" }, title)), numbers, h("th", { scope: "col" }, "known as"))),
      h(
        "tbody",
        {},
        answer.rows.map((row) =>
          h(
            "tr",
            {},
            row.groups.map((text) => h("th", { scope: "row" }, text)),
            row.cells.flatMap((cell) => [h("td", { class: "number" }, number(cell.value)), h("td", { class: "number soft" }, interval(cell))]),
            h("td", {}, row.cells[0] && badge(row.cells[0].kind)),
          ),
        ),
      ),
    ),
  );
}

const quoted = (text) => (/[",\n]/.test(String(text)) ? `"${String(text).replaceAll('"', '""')}"` : String(text));

export function csv(answer) {
  const head = [...answer.groups, ...answer.columns.flatMap((title) => [title, `${title} low`, `${title} high`]), "known as"];
  const lines = answer.rows.map((row) => [...row.groups, ...row.cells.flatMap((cell) => [cell.value, cell.low, cell.high]), row.cells[0]?.kind ?? ""]);
  return [head, ...lines].map((cells) => cells.map(quoted).join(",")).join("\n");
}

export const pandas = (answer, place) =>
  [
    "import os",
    "import maquette as mq",
    "",
    `session = mq.connect(${JSON.stringify(location.origin)}, token=os.environ["MAQUETTE_TOKEN"]).table(${JSON.stringify(place.table)})`,
    `frame = session.ask(${JSON.stringify(place.sql)}).to_pandas()`,
  ].join("\n");

function copying(answer, place) {
  const told = h("span", { class: "soft" });
  const shown = h("div");
  // Browsers give pages the clipboard only on this machine or over TLS; elsewhere the text is shown, ready to be copied.
  const copy = (words, text) => async () => {
    replace(shown);
    try {
      await navigator.clipboard.writeText(text());
      told.textContent = `Copied: ${words}.`;
    } catch {
      told.textContent = "This browser does not let the page copy: the text is below.";
      replace(shown, h("pre", { tabindex: 0, role: "region", "aria-label": `The answer as ${words}` }, text()));
    }
    announce(told.textContent);
  };
  const link = () => `${location.origin}/#/ask?${new URLSearchParams({ table: place.table, sql: place.sql })}`;
  return [h(
    "div",
    { class: "row middle", role: "group", "aria-label": "Copy the answer" },
    h("button", { type: "button", onclick: copy("CSV", () => csv(answer)) }, "Copy CSV"),
    h("button", { type: "button", onclick: copy("pandas", () => pandas(answer, place)) }, "Copy pandas"),
    h("button", { type: "button", onclick: copy("SQL", () => place.sql) }, "Copy SQL"),
    h("button", { type: "button", onclick: copy("a link", link) }, "Copy link"),
    told,
  ), shown];
}

// place: {table, sql, schema, asked: whether the question is not in sight otherwise}; drill: what a click on a bar does.
export function answered(answer, place, drill = null) {
  const kinds = [...new Set(answer.rows.flatMap((row) => row.cells.map((cell) => cell.kind)))];
  const single = answer.rows.length === 1 && answer.groups.length === 0;
  const cell = answer.rows[0]?.cells[0];
  return h(
    "section",
    { "aria-labelledby": "answer-title", class: "answer" },
    h("h2", { id: "answer-title" }, "Answer"),
    place.asked && h("p", { class: "asked" }, h("code", {}, place.sql.replace(/\s+/g, " "))),
    h(
      "p",
      {},
      kinds.map((kind) => [badge(kind), " "]),
      answer.paid ? `Cost ${epsilon(answer.cost)}.` : "Free.",
      kinds.filter((kind) => ["guess", "wider"].includes(kind)).map((kind) => ` ${KINDS[kind][2]}`),
      answer.confidence ? ` Intervals at ${number(100 * answer.confidence)}% confidence${answer.together ? ", all of them together" : ""}.` : "",
      answer.guarantee ? ` ${sentence(answer.guarantee)}` : "",
    ),
    single && cell && h("p", { class: "single" }, h("strong", {}, number(cell.value)), ` ${interval(cell)}`),
    single && answer.columns.length <= 12 && answer.rows[0].cells.map((each, at) => Number.isFinite(each.low) && Number.isFinite(each.high) && explained(bars([{ label: answer.columns[at], ...each }], { title: `${answer.columns[at]}, with its interval` }), "bars", [each.kind], null)),
    chartable(answer) && answer.groups.length > 0 && answer.groups.length <= 2 && answer.columns.map((_, measure) => chart(answer, measure, place.schema, drill)),
    table(answer),
    copying(answer, place),
  );
}
