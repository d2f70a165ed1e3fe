// Budget: what is spent and left, by whom and on what, what the rest would buy, and a price list.

import * as api from "../api.js";
import { gauge } from "../charts.js";
import { h, replace } from "../dom.js";
import { name } from "../names.js";
import { epsilon, number, percent, sentence } from "../numbers.js";
import { listing } from "../tables.js";

function words(budget) {
  const share = budget.limit.units > 0 ? budget.spent.units / budget.limit.units : 0;
  return `${percent(share)} used: ${epsilon(budget.spent)} of ${number(budget.limit.epsilon)}${budget.delta ? ` at delta ${number(budget.delta)}` : ""}.`;
}

// What typical questions would cost now: asked of `explain`, which never charges.
async function prices(table) {
  const grouped = table.columns.filter((column) => column.size <= 40).slice(0, 3).map((column) => column.name);
  const asked = grouped.map((_, at) => grouped.slice(0, at + 1));
  const told = await Promise.all(
    asked.map((columns) => api.explain(table.name, { sql: `SELECT ${columns.map(name).join(", ")}, count(*) FROM ${name(table.name)} GROUP BY ${columns.map(name).join(", ")}` }).catch(() => null)),
  );
  return asked.map((columns, at) => [`counts by ${columns.join(", ")}`, told[at] ? (told[at].free ? "free" : epsilon(told[at].cost)) : "cannot be afforded"]);
}

export async function budget(place, { table, who }) {
  const asks = who.role !== "auditor"; // who may not ask is told no prices
  const [account, forecast, priced, spent] = await Promise.all([api.budget(table.name), api.outlook(table.name), asks && prices(table), spending(table.name, who)]);
  const mine = account.own;
  replace(
    place,
    h("h1", {}, `Budget of ${table.name}`),
    h("section", {}, h("h2", {}, "The table"), gauge(account.spent.units, account.limit.units, words(account)), h("p", {}, h("strong", {}, "What the rest buys: "), sentence(forecast)), account.delta > 0 && h("p", { class: "hint" }, "Shares of the budget add up; epsilons do not: many small questions cost less together than the sum of their epsilons.")),
    asks && mine && h("section", {}, h("h2", {}, "Yours"), mine.limit ? gauge(mine.spent.units, mine.limit.units, words(mine)) : h("p", {}, `You have spent ${epsilon(mine.spent)}. You have no limit of your own below the table's.`)),
    asks && h("section", {}, h("h2", {}, "Price list"), listing(["question", "price"], priced, { caption: "What these tables would cost now; what is known already is free" })),
    spent,
  );
}

// An analyst sees the own charges; a custodian and an auditor those of everybody.
async function spending(table, who) {
  const charges = await api.charges(table);
  const all = who.role !== "analyst";
  const byAnalyst = grouped(charges);
  const totals = [...byAnalyst].map(([analyst, own]) => [analyst, own.length, percent(own.reduce((sum, charge) => sum + charge.share, 0))]);
  return h(
    "section",
    {},
    h("h2", {}, all ? "Who spent what, on which" : "What you spent, on which"),
    all && listing(["analyst", "charges", "share"], totals, { caption: "By analyst, with the share of the table's budget", numbers: [1, 2] }),
    h("h3", {}, "Charges"),
    listing(["number", "analyst", "what", "share", "state"], charges.slice(-200).reverse().map((charge) => [charge.number, charge.analyst, charge.what, percent(charge.share), charge.state]), { caption: "The last 200 charges, with their share of the table's budget", numbers: [0, 3], wide: [2] }),
  );
}

function grouped(charges) {
  const found = new Map();
  for (const charge of charges) found.set(charge.analyst, [...(found.get(charge.analyst) ?? []), charge]);
  return found;
}
