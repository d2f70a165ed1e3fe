// Holdout: a leaderboard of predictions, scored on rows nobody sees, with intervals that hold together; conditions asked
// of the same rows; and, for a custodian, registering a file as a holdout.

import * as api from "../api.js";
import { bars } from "../charts.js";
import { announce, field, h, options, replace } from "../dom.js";
import { number } from "../numbers.js";
import { tryingIn } from "../showing.js";
import { listing } from "../tables.js";
import { cardsOf, leftOut } from "./publish.js";

const plusMinus = (entry) => `${number(entry.value)} ± ${number(entry.half_width)}`;

// Numbers are sent as numbers; anything else as the word that it is.
const predicted = (text) => text.split(/[\n,;\t]+/).map((word) => word.trim()).filter(Boolean).map((word) => (Number.isNaN(Number(word)) ? word : Number(word)));

function ranked(board) {
  const points = board.map((entry) => ({ label: entry.entry, value: entry.value, low: entry.value - entry.half_width, high: entry.value + entry.half_width, kind: "promise" }));
  const lines = board.map((entry) => [entry.entry, plusMinus(entry), entry.statistic, entry.analyst]);
  return [points.length > 0 && bars(points, { title: "Certified scores with intervals" }), listing(["entry", "certified score", "statistic", "by"], lines, { caption: "All intervals hold together", numbers: [1], empty: "No entry yet." })];
}

export async function holdout(place, { who }) {
  let holdouts = await api.holdouts();
  const said = h("div", { "aria-live": "polite" });
  const shown = h("div");
  const choice = h("section");

  const trying = tryingIn(said);

  // The forms are drawn at once and never again: only the leaderboard waits for the server.
  async function open(id) {
    const facts = holdouts.find((each) => each.name === id);
    const chosen = h("select", { onchange: () => open(chosen.value) }, options(holdouts.map((each) => [each.name, `${each.name}: ${number(each.rows)} rows`]), id));
    replace(choice, field("Holdout", chosen), h("p", { class: "soft" }, `${number(facts.rows)} rows; intervals at ${number(100 * facts.confidence)}% confidence, all of them together.`));
    const board = h("div");
    const rank = async () => replace(board, ranked(await api.leaderboard(id)));
    replace(
      shown,
      who.role !== "auditor" && h("div", { class: "two" }, facts.statistics.length > 0 && submit(facts, rank), facts.conditions && ask(facts)),
      h("section", {}, h("h2", {}, "Leaderboard"), board),
    );
    await rank();
  }

  const result = (title, words) => replace(said, h("section", {}, h("h2", {}, title), h("p", {}, words))).scrollIntoView({ block: "nearest" });

  function submit(facts, rank) {
    const title = h("input", { required: true, maxlength: 64 });
    const statistic = h("select", {}, options(facts.statistics, null));
    const predictions = h("textarea", { rows: 5, cols: 40, required: true });
    const file = h("input", { type: "file", accept: ".csv,.txt", onchange: async () => (predictions.value = await file.files[0].text()) });
    const send = trying(async () => {
      const score = await api.submit(facts.name, { entry: title.value, statistic: statistic.value, predictions: predicted(predictions.value) });
      result("Certified", `${title.value}: ${plusMinus(score)}`);
      announce("Scored.");
      await rank();
    });
    return h("section", {}, h("h2", {}, "Submit predictions"), h("form", { onsubmit: send }, h("div", { class: "row" }, field("Name of the entry", title), field("Statistic", statistic)), field(`Predictions of ${facts.target}, one for each row of the holdout, in its order`, predictions), h("div", { class: "row" }, field("or a file", file), h("button", { class: "primary" }, "Score"))));
  }

  function ask(facts) {
    const where = h("input", { required: true, size: 36, placeholder: "age >= 65 AND smoker" });
    const guess = h("input", { type: "number", min: 0, max: 1, step: "any", placeholder: "none" });
    const send = trying(async () => {
      const told = await api.askHoldout(facts.name, { where: where.value, ...(guess.value && { guess: Number(guess.value) }) });
      result("Certified", `${where.value}: a share of ${plusMinus(told)}`);
      announce("Answered.");
    });
    return h("section", {}, h("h2", {}, "Ask a condition"), h("p", { class: "soft" }, "How often it holds in the population. A good guess makes the holdout last longer."), h("form", { onsubmit: send }, field("Condition", where), h("div", { class: "row" }, field("Your guess, from 0 to 1", guess), h("button", { class: "primary" }, "Ask"))));
  }

  function registering() {
    const body = h("div");
    const file = h("input", { type: "file", required: true, accept: ".csv,.parquet" });
    const send = trying(async () => details(await api.draft(file.files[0])));

    function details(draft) {
      const cards = cardsOf(draft);
      const title = h("input", { required: true, pattern: "[a-z_][a-z0-9_]*", maxlength: 63, value: draft.name });
      const target = h("select", {}, options([["", "none: no predictions"], ...draft.source_columns], draft.source_columns.at(-1)));
      const confidence = h("input", { type: "number", min: 0.5, max: 0.9999, step: "any", value: 0.95, required: true });
      const conditions = h("input", { type: "checkbox" });
      const register = trying(async () => {
        if (conditions.checked) await api.revise(draft.id, { columns: cards.map((each) => each.read()), reviewed: true });
        const made = await api.register({ draft: draft.id, name: title.value, ...(target.value && { target: target.value }), conditions: conditions.checked, confidence: Number(confidence.value) });
        holdouts = await api.holdouts();
        start.reset();
        replace(body, start);
        result("Registered", `${made.name} is open below.`);
        announce("Registered.");
        await open(made.name);
      });
      replace(
        body,
        h(
          "form",
          { onsubmit: register },
          h("div", { class: "row" }, field("Name", title, "small letters, digits and _"), field("Column that predictions are scored against", target), field("Confidence", confidence)),
          h("label", {}, conditions, " Conditions may be asked too: I have reviewed the columns below."),
          h("details", {}, h("summary", {}, "Columns, as drafted"), cards.map((each) => each.element), leftOut(draft)),
          h("div", { class: "row" }, h("button", { class: "primary" }, "Register")),
        ),
      );
    }

    const start = h("form", { onsubmit: send }, h("div", { class: "row" }, field("A CSV or Parquet file", file), h("button", { class: "primary" }, "Upload")));
    replace(body, start);
    return h("section", {}, h("h2", {}, "Register a holdout"), h("p", {}, "Rows that nobody has looked at. They are kept for certified scores and nothing else: the same file cannot be opened as a table."), body);
  }

  replace(
    place,
    h("h1", {}, "Holdouts"),
    h("p", {}, "Score models many times on one sample. The intervals stay valid, however the next model is chosen."),
    said,
    choice,
    shown,
    who.role === "custodian" && registering(),
  );
  if (holdouts.length) await open(holdouts[0].name);
  else replace(choice, h("p", {}, "No holdout yet."));
}
