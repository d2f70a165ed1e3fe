// Custodian: tables, people and their tokens, releases, ledgers, the audit log; and publishing a table step by step.

import * as api from "../api.js";
import { announce, field, h, options, replace } from "../dom.js";
import { epsilon, number } from "../numbers.js";
import { problem } from "../showing.js";
import { facts, listing } from "../tables.js";

const when = (seconds) => (seconds ? new Date(1000 * seconds).toLocaleString("en-GB") : "–");

export async function custodian(place, { table, who, query }) {
  const said = h("div", { "aria-live": "polite" });
  const trying = (act) => async (event) => {
    event?.preventDefault?.();
    try {
      replace(said);
      await act(event);
    } catch (error) {
      replace(said, problem(error));
      said.scrollIntoView({ block: "nearest" });
    }
  };
  const governs = who.role === "custodian";
  replace(
    place,
    h("h1", {}, "Custodian"),
    said,
    governs && h("p", {}, h("a", { class: "button", href: "#/publish" }, "Publish a table…")),
    table && (await ledger(table, trying)),
    table && governs && (await releases(table, trying)),
    governs && (await people(trying)),
    await log(),
  );
}

async function ledger(table, trying) {
  const account = await api.budget(table.name);
  const verified = h("p", { role: "status" });
  const verify = trying(async () => {
    const told = await api.verify(table.name);
    replace(verified, `The whole ledger was verified: ${number(told.seq)} entries, head ${String(told.head).slice(0, 16)}…`);
  });
  return h(
    "section",
    {},
    h("h2", {}, `Table ${table.name}`),
    facts([
      ["Budget", `epsilon ${number(account.limit.epsilon)}`],
      ["Spent", epsilon(account.spent)],
      ["Columns", number(table.columns.length)],
      ["Protects", table.protects],
    ]),
    h("div", { class: "row" }, h("button", { type: "button", onclick: verify }, "Verify the ledger")),
    verified,
  );
}

async function releases(table, trying) {
  const made = h("div");
  const draw = async () => replace(made, listing(["release", "cost", "relation", ""], (await api.releases(table.name)).map((each) => [each.title, epsilon(each.cost), each.relation, h("span", {}, h("a", { href: each.file }, "download"), " ", h("a", { href: each.report, target: "_blank", rel: "noopener" }, "report"))]), { caption: "Releases of this table", empty: "No release yet." }));
  const title = h("input", { required: true, pattern: "[a-z_][a-z0-9_]*", maxlength: 63, value: "first" });
  const price = h("input", { type: "number", min: 0, step: "any", value: 0.25, required: true });
  const ways = h("select", {}, options([["1", "single columns"], ["2", "pairs of columns"], ["3", "triples of columns"]], "2"));
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Progress of the release" });
  const words = h("p", { role: "status" });
  const make = trying(async () => {
    const job = await api.makeRelease(table.name, { name: title.value, epsilon: Number(price.value), ways: Number(ways.value) });
    bar.hidden = false;
    for await (const event of api.progress(job)) {
      bar.value = event.share ?? bar.value;
      words.textContent = event.words;
      if (event.failed) throw event.failed;
    }
    bar.hidden = true;
    announce("The release is ready.");
    await draw();
  });
  bar.hidden = true;
  await draw();
  return h("section", {}, h("h2", {}, "Releases"), made, h("form", { onsubmit: make, class: "row" }, field("Name", title), field("epsilon to spend", price), field("Answers", ways), h("button", { class: "primary" }, "Make a release")), bar, words);
}

async function people(trying) {
  const known = h("div");
  const given = h("div", { role: "status" });
  const draw = async () =>
    replace(
      known,
      listing(
        ["name", "role", "tables", "expires", ""],
        (await api.tokens()).map((token) => [
          token.name,
          token.role,
          token.tables ?? "all",
          when(token.expires),
          token.revoked ? "revoked" : h("button", { type: "button", onclick: trying(async () => (await api.revoke(token.id), await draw())) }, "Revoke"),
        ]),
        { caption: "Tokens" },
      ),
    );
  const title = h("input", { required: true, maxlength: 60 });
  const role = h("select", {}, options(["analyst", "auditor", "custodian"], "analyst"));
  const most = h("input", { type: "number", min: 0, step: "any", placeholder: "no limit" });
  const make = trying(async () => {
    const token = await api.invite({ name: title.value, role: role.value, ...(most.value && { limit: Number(most.value) }) });
    replace(given, h("p", {}, `The token of ${token.name}, shown this once. Send it to them by a safe way:`), h("pre", { tabindex: 0 }, token.token));
    await draw();
  });
  await draw();
  return h("section", {}, h("h2", {}, "People and tokens"), known, h("form", { onsubmit: make, class: "row" }, field("Name", title), field("Role", role), field("Most epsilon per table", most), h("button", { class: "primary" }, "Make a token")), given);
}

async function log() {
  const entries = await api.log();
  return h("section", {}, h("h2", {}, "Audit log"), listing(["when", "who", "what", "table", "outcome"], entries.slice(0, 200).map((entry) => [when(entry.at), entry.who, entry.what, entry.table ?? "", entry.outcome]), { caption: "The last 200 entries, newest first" }));
}

