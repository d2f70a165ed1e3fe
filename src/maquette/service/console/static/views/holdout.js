// Holdout: a leaderboard of predictions, scored on rows nobody sees, with intervals that hold together.

import * as api from "../api.js";
import { bars } from "../charts.js";
import { announce, field, h, options, replace } from "../dom.js";
import { number } from "../numbers.js";
import { problem } from "../showing.js";
import { listing } from "../tables.js";

const REGISTER = `[[holdout]]
name = "churn"
source = "churn-holdout.parquet"
target = "left"          # the column that predictions are scored against
confidence = 0.95`;

const plusMinus = (entry) => `${number(entry.value)} ± ${number(entry.half_width)}`;

export async function holdout(place, { who }) {
  const holdouts = await api.holdouts();
  const said = h("div", { "aria-live": "polite" });
  const shown = h("div");
  const chosen = h("select", { onchange: () => open(chosen.value) }, options(holdouts.map((each) => [each.name, `${each.name}: ${number(each.rows)} rows`]), null));

  async function open(id) {
    const facts = holdouts.find((each) => each.name === id);
    const board = await api.leaderboard(id);
    const points = board.map((entry) => ({ label: entry.entry, value: entry.value, low: entry.value - entry.half_width, high: entry.value + entry.half_width, kind: "promise" }));
    replace(
      shown,
      h("section", {}, h("h2", {}, "Submit predictions"), h("p", {}, `${number(facts.rows)} rows; intervals at ${number(100 * facts.confidence)}% confidence, all of them together.`), facts.statistics.length ? submit(facts) : h("p", { class: "soft" }, "This holdout has no target, so it takes conditions, not predictions.")),
      h("section", {}, h("h2", {}, "Leaderboard"), points.length > 1 && bars(points, { title: "Certified scores with intervals" }), listing(["entry", "by", "statistic", "certified score"], board.map((entry) => [entry.entry, entry.analyst, entry.statistic, plusMinus(entry)]), { caption: "All intervals hold together", numbers: [3] })),
    );
  }

  function submit(facts) {
    const title = h("input", { required: true, maxlength: 80 });
    const statistic = h("select", {}, options(facts.statistics, null));
    const predictions = h("textarea", { rows: 5, cols: 40, required: true });
    const file = h("input", { type: "file", accept: ".csv,.txt", onchange: async () => (predictions.value = await file.files[0].text()) });
    const send = async (event) => {
      event.preventDefault();
      try {
        const values = predictions.value.split(/[\s,;]+/).filter(Boolean).map(Number);
        const score = await api.submit(facts.name, { entry: title.value, statistic: statistic.value, predictions: values });
        replace(said, h("section", {}, h("h2", {}, "Certified"), h("p", {}, `${title.value}: ${plusMinus(score)}`)));
        announce("Scored.");
        await open(facts.name);
      } catch (error) {
        replace(said, problem(error));
      }
    };
    return h("form", { onsubmit: send }, h("div", { class: "row" }, field("Name of the entry", title), field("Statistic", statistic)), field("Predictions, one for each row of the holdout, in its order", predictions), h("div", { class: "row" }, field("or a file", file), h("button", { class: "primary" }, "Score")));
  }

  replace(
    place,
    h("h1", {}, "Holdouts"),
    h("p", {}, "Score models many times on one sample. The intervals stay valid, however the next model is chosen."),
    said,
    holdouts.length ? h("section", {}, field("Holdout", chosen)) : h("section", {}, h("p", {}, "No holdout yet.")),
    shown,
    who.role === "custodian" && h("section", {}, h("h2", {}, "Register a holdout"), h("p", {}, "A holdout is a file on the server. Name it in maquette.toml and start the service again:"), h("pre", { tabindex: 0 }, REGISTER)),
  );
  if (holdouts.length) await open(holdouts[0].name);
}
