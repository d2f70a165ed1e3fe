// Custodian: tables, people with their limits and tokens, releases, ledgers, the audit log; and publishing a table.

import * as api from "../api.js";
import { field, h, options, replace } from "../dom.js";
import { epsilon, number, percent } from "../numbers.js";
import { progressing, WAYS } from "../progress.js";
import { tryingIn } from "../showing.js";
import { facts, listing } from "../tables.js";

const when = (seconds) => (seconds ? new Date(1000 * seconds).toLocaleString("en-GB") : "–");
const address = (view, table) => `#/${view}?${new URLSearchParams({ table })}`;
const away = (href, words) => h("a", { href, target: "_blank", rel: "noopener" }, words);

export async function custodian(place, { table, who }) {
  const said = h("div", { "aria-live": "polite" });
  const written = log();
  const attempt = tryingIn(said);
  const trying = (act) => attempt(async (event) => (await act(event), await written.draw())); // what was done is in the log
  const governs = who.role === "custodian";
  const shown = tables(table, governs);
  const parts = await Promise.all([
    table && ledger(table, trying),
    table && accounts(table, trying, governs),
    table && governs && releases(table, trying, shown.draw),
    governs && people(trying),
    shown.draw(),
    written.draw(),
  ]);
  replace(
    place,
    h("h1", {}, governs ? "Custodian" : "Audit"),
    said,
    shown.element,
    parts.slice(0, 4),
    written.element,
  );
}

function tables(current, governs) {
  const place = h("div");
  const line = (each, account) => [
    h("a", { href: address("custodian", each.name), "aria-current": each.name === current?.name && "true" }, each.name),
    `epsilon ${number(each.epsilon)}`,
    `${epsilon(account.spent)} (${percent(account.spent.units / account.limit.units)})`,
    number(each.columns.length),
    each.releases.join(", ") || "none",
    h("a", { href: address("budget", each.name) }, "budget"),
  ];
  const draw = async () => {
    const all = await api.tables();
    const spent = await Promise.all(all.map((each) => api.budget(each.name)));
    replace(place, listing(["table", "budget", "spent", "columns", "releases", ""], all.map((each, at) => line(each, spent[at])), { caption: "Choose a table to govern it below", empty: "No table yet." }));
  };
  return { element: h("section", {}, h("h2", {}, "Tables"), place, governs && h("div", { class: "row" }, h("a", { class: "button", href: "#/publish" }, "Publish a table…"))), draw };
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
    h("div", { class: "row" }, h("button", { type: "button", onclick: verify }, "Verify the ledger"), h("a", { class: "button", href: api.reportAddress(table.name), target: "_blank", rel: "noopener" }, "Report of the session")),
    verified,
  );
}

async function accounts(table, trying, governs) {
  const shown = h("div");
  const draw = async () => {
    const [found, whole] = await Promise.all([api.accounts(table.name), api.budget(table.name)]);
    const share = (loss) => `${epsilon(loss)} (${percent(loss.units / whole.limit.units)})`;
    replace(shown, listing(["analyst", "spent", "limit"], found.map((each) => [each.account, share(each.spent), each.limit ? epsilon(each.limit) : "that of the table"]), { caption: "Who has spent or is limited; a group's name ends in a slash" }));
  };
  const account = h("input", { required: true, maxlength: 130, pattern: "[A-Za-z0-9_][A-Za-z0-9_.@\\/\\-]*" });
  const most = h("input", { type: "number", min: 0, step: "any", required: true });
  const set = trying(async () => {
    await api.setLimit(table.name, account.value, Number(most.value));
    await draw();
  });
  await draw();
  return h("section", {}, h("h2", {}, "Analysts and limits"), shown, governs && h("form", { onsubmit: set, class: "row" }, field("Analyst", account), field("Most epsilon on this table", most), h("button", {}, "Set the limit")));
}

async function releases(table, trying, redraw) {
  const made = h("div");
  const draw = async () => {
    const links = (each) => h("span", {}, h("a", { href: each.file }, "download"), " ", away(each.report, "report"));
    replace(made, listing(["release", "cost", "relation", ""], (await api.releases(table.name)).map((each) => [each.title, epsilon(each.cost), each.relation, links(each)]), { caption: "Releases of this table", empty: "No release yet." }));
  };
  const title = h("input", { required: true, pattern: "[a-z_][a-z0-9_]*", maxlength: 63, value: "first" });
  const price = h("input", { type: "number", min: 0, step: "any", value: 0.25, required: true });
  const ways = h("select", {}, options(WAYS, "2"));
  const progress = progressing();
  const follow = async (job) => {
    await progress.follow(job);
    await Promise.all([draw(), redraw()]);
  };
  const make = trying(async () => (progress.reset(), await follow(await api.makeRelease(table.name, { name: title.value, epsilon: Number(price.value), ways: Number(ways.value) }))));
  await draw();
  const running = (await api.jobs(table.name)).find((job) => ["waiting", "running"].includes(job.state));
  if (running) trying(() => follow(running))();
  return h("section", {}, h("h2", {}, "Releases"), made, h("form", { onsubmit: make, class: "row" }, field("Name", title), field("epsilon to spend", price), field("Answers", ways), h("button", { class: "primary" }, "Make a release")), progress.element);
}

async function people(trying) {
  const known = h("div");
  const given = h("div", { role: "status" });
  // Revoking cannot be undone: the first click asks, the second does it.
  const revoking = (token, draw) => {
    const act = (words, label, onclick) => h("button", { type: "button", "aria-label": `${label} the token of ${token.name}`, onclick }, words);
    const sure = act("Really revoke", "Really revoke", trying(async () => (await api.revoke(token.id), await draw())));
    const place = h("span", {}, act("Revoke", "Revoke", () => (replace(place, sure), sure.focus())));
    return place;
  };
  const draw = async () =>
    replace(
      known,
      listing(
        ["name", "role", "tables", "made", "expires", ""],
        (await api.tokens()).map((token) => [token.name, token.role, token.tables?.join(", ") ?? "all", when(token.created), token.expires ? when(token.expires) : "never", token.revoked ? "revoked" : revoking(token, draw)]),
        { caption: "Tokens" },
      ),
    );
  const title = h("input", { required: true, maxlength: 60, pattern: "[A-Za-z0-9_][A-Za-z0-9_.@\\-]*" });
  const role = h("select", {}, options(["analyst", "auditor", "custodian"], "analyst"));
  const scope = h("select", {}, options([["", "all tables"], ...(await api.tables()).map((each) => each.name), ...(await api.holdouts()).map((each) => [each.name, `${each.name} (holdout)`])], ""));
  const days = h("input", { type: "number", min: 1, max: 3650, step: 1, placeholder: "default" });
  const most = h("input", { type: "number", min: 0, step: "any", placeholder: "no limit" });
  const make = trying(async () => {
    const token = await api.invite({ name: title.value, role: role.value, ...(scope.value && { tables: [scope.value] }), ...(days.value && { days: Number(days.value) }), ...(most.value && { limit: Number(most.value) }) });
    replace(given, h("p", {}, `The token of ${token.name}, shown this once. Send it to them by a safe way:`), h("pre", { tabindex: 0 }, token.token));
    await draw();
  });
  await draw();
  return h("section", {}, h("h2", {}, "People and tokens"), known, h("form", { onsubmit: make }, h("div", { class: "row" }, field("Name", title), field("Role", role), field("May see", scope), field("Days", days), field("Most epsilon per table", most)), h("div", { class: "row" }, h("button", { class: "primary" }, "Make a token"))), given);
}

function log() {
  let entries = [];
  const shown = h("div");
  const sought = h("input", { type: "search", oninput: () => list() });
  const list = () => {
    const lines = entries.map((entry) => [when(entry.at), entry.who, entry.what, entry.table ?? "", entry.outcome]).filter((line) => line.join(" ").toLowerCase().includes(sought.value.toLowerCase()));
    replace(shown, listing(["when", "who", "what", "table", "outcome"], lines.slice(0, 200), { caption: "The last 200 matching entries, newest first", empty: "No entry." }));
  };
  const draw = async () => {
    entries = await api.log();
    list();
  };
  return { element: h("section", {}, h("h2", {}, "Audit log"), field("Search the log", sought), shown), draw };
}
