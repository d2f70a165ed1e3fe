// Publish a table: upload, review the drafted schema column by column, say who is protected, see the plan and a preview
// on invented rows, then open it. Nothing is charged before the last step.

import * as api from "../api.js";
import { announce, field, h, options, replace } from "../dom.js";
import { sentence } from "../numbers.js";
import { tryingIn } from "../showing.js";
import { listing } from "../tables.js";
import { progressing, WAYS } from "../progress.js";

const STEPS = ["Upload", "Review columns", "Who is protected", "Budget and plan", "Open"];

// One column of the draft: what was seen in it, and its settings as they stand in the schema file, each in a field.
function card(column, notes = []) {
  const inputs = Object.entries(column.settings).map(([key, value]) => {
    const long = value.length > 60;
    const input = long ? h("textarea", { rows: 3, cols: 60 }) : h("input", { size: Math.max(8, value.length + 2) });
    input.value = value;
    return [key, input];
  });
  const kept = h("input", { type: "checkbox", checked: !column.skipped });
  const element = h(
    "section",
    { class: "panel" },
    h("h3", {}, column.name, " ", h("span", { class: "soft" }, column.kind)),
    notes.length > 0 && h("p", { class: "hint" }, notes.map(sentence).join(" ")),
    h("div", { class: "row" }, inputs.map(([key, input]) => field(key, input))),
    h("div", { class: "row" }, h("label", {}, kept, ` keep ${column.name} as a column`)),
  );
  const read = () => ({ name: column.name, kind: column.kind, keep: kept.checked, settings: Object.fromEntries(inputs.map(([key, input]) => [key, input.value])) });
  return { element, read };
}

export const cardsOf = (draft) => draft.columns.map((column) => card(column, draft.notes[column.name]));

// Columns that could not be drafted, each with its reason.
export const leftOut = ({ skipped }) =>
  skipped.length > 0 && h("section", { class: "panel" }, h("h3", {}, "Left out of the draft"), h("ul", {}, skipped.map((reason) => h("li", {}, reason))), h("p", { class: "hint" }, "A column that says whose a row is can be chosen in the next step. To keep another, declare it in a schema file and serve the table with it: maquette schema guess writes the rest of the file."));

export async function publish(place, { who }) {
  const said = h("div", { "aria-live": "polite" });
  const body = h("div");
  const state = { draft: null, unit: "", contributions: 1, budget: null };

  const trying = tryingIn(said);

  function step(at, ...children) {
    const list = h("ol", { class: "steps" }, STEPS.map((title, each) => h("li", { class: each < at && "done", "aria-current": each === at && "step" }, title)));
    replace(body, list, h("section", {}, h("h2", { tabindex: -1 }, STEPS[at]), ...children));
    body.querySelector("h2").focus();
    announce(`Step ${at + 1} of ${STEPS.length}: ${STEPS[at]}`);
  }

  function upload() {
    const file = h("input", { type: "file", required: true, accept: ".csv,.parquet,.gz,.xlsx" });
    const send = trying(async () => {
      state.draft = await api.draft(file.files[0]);
      review();
    });
    step(0, h("p", {}, "The file stays on the server, readable by it alone. A schema is drafted from it: a draft, because it was made by looking at the rows."), h("form", { onsubmit: send }, field("A CSV, Parquet or Excel file", file), h("div", { class: "row" }, h("button", { class: "primary" }, "Upload and draft"))));
  }

  function review() {
    const cards = cardsOf(state.draft);
    const reviewed = h("input", { type: "checkbox", required: true });
    const save = trying(async () => {
      state.draft = await api.revise(state.draft.id, { columns: cards.map((each) => each.read()), reviewed: reviewed.checked });
      protect();
    });
    step(
      1,
      h("p", {}, "Replace every bound and level by what you would declare without looking. Bounds copied from the rows can tell about one person."),
      cards.map((each) => each.element),
      leftOut(state.draft),
      h("form", { onsubmit: save }, h("label", {}, reviewed, " I have reviewed every column."), h("div", { class: "row" }, h("button", { class: "primary" }, "Check against the rows"))),
    );
  }

  const back = (to) => h("button", { type: "button", onclick: to }, "Back");

  function protect() {
    const unit = h("select", {}, options([["", "each row"], ...state.draft.source_columns.map((name) => [name, `everyone with the same ${name}`])], state.unit));
    const most = h("input", { type: "number", min: 1, max: 1000, value: state.contributions, disabled: !state.unit });
    unit.addEventListener("change", () => (most.disabled = !unit.value)); // only people have several rows
    const next = trying(async () => {
      state.unit = unit.value;
      state.contributions = unit.value ? Number(most.value) : 1;
      plan();
    });
    step(2, h("p", {}, "Who must not be recognised: a row, or all rows of one person? Of a person, no more rows are counted than you say here."), h("form", { onsubmit: next }, h("div", { class: "row" }, field("Protected", unit), field("Maximum rows per person", most)), h("div", { class: "row" }, h("button", { class: "primary" }, "Next"), back(review))));
  }

  function plan() {
    const before = { epsilon: 1, delta: 1e-9, alpha: 0.02, rows: 10000, ...state.budget };
    const epsilon = h("input", { type: "number", min: 0.0001, step: "any", value: before.epsilon, required: true });
    const delta = h("input", { type: "number", min: 0, step: "any", value: before.delta });
    const alpha = h("input", { type: "number", min: 0.0001, max: 0.5, step: "any", value: before.alpha });
    const rows = h("input", { type: "number", min: 1, step: 1, value: before.rows });
    const shown = h("div", { "aria-live": "polite" });
    const given = () => ({ epsilon: Number(epsilon.value), delta: Number(delta.value), alpha: Number(alpha.value), rows: Number(rows.value), unit: state.unit || null, max_contributions: state.contributions });
    const see = trying(async () => {
      const told = await api.planDraft(state.draft.id, given());
      state.budget = given();
      replace(
        shown,
        h("h3", {}, "What it will be good for"),
        h("ul", {}, told.words.map((line) => h("li", {}, line))),
        h("h3", {}, "Preview on invented rows"),
        listing(["question", "answer", "interval", "truth of the invented rows"], told.preview, { caption: "Rows drawn from the schema alone: no real row was read" }),
        h("div", { class: "row" }, h("button", { type: "button", class: "primary", onclick: open }, "Next: open the table")),
      );
    });
    step(3, h("form", { onsubmit: see }, h("div", { class: "row" }, field("epsilon", epsilon), field("delta", delta), field("alpha: largest error, as a share", alpha), field("Rows, about (public)", rows)), h("div", { class: "row" }, h("button", { class: "primary" }, "Show the plan"), back(protect))), shown);
  }

  function open() {
    const title = h("input", { required: true, pattern: "[a-z_][a-z0-9_]*", maxlength: 63, value: state.draft.name });
    const then = h("select", {}, options([["ask", "analysts ask it (a session)"], ["release", "a release is made from it now"]], "ask"));
    const share = h("input", { type: "number", min: 0.0001, step: "any", value: state.budget.epsilon / 2, required: true });
    const ways = h("select", {}, options(WAYS, "2"));
    const more = h("div", { class: "row" }, field("epsilon of the release", share, "the rest stays for questions"), field("Answers", ways));
    more.hidden = true;
    then.addEventListener("change", () => (more.hidden = then.value !== "release"));
    const made = progressing();
    const send = trying(async () => {
      const opened = await api.publish(state.draft.id, { name: title.value, ...state.budget });
      if (then.value === "release") await made.follow(await api.makeRelease(opened.name, { name: "first", epsilon: Number(share.value), ways: Number(ways.value) }));
      // Not by `location.hash`: that would begin to draw the next view, whose requests the reload then breaks off.
      history.pushState(null, "", `#/${then.value === "release" ? "model" : "ask"}?${new URLSearchParams({ table: opened.name })}`);
      location.reload();
    });
    step(4, h("p", {}, `The table opens with epsilon ${state.budget.epsilon} and delta ${state.budget.delta}. The budget is for the life of the table: it cannot be refilled.`), h("form", { onsubmit: send }, h("div", { class: "row" }, field("Name of the table", title, "small letters, digits and _"), field("Then", then)), more, h("div", { class: "row" }, h("button", { class: "primary" }, "Open the table"), back(plan))), made.element);
  }

  if (who.role !== "custodian") return replace(place, h("section", {}, h("p", {}, "Only a custodian publishes tables.")));
  replace(place, h("h1", {}, "Publish a table"), said, body);
  upload();
}
