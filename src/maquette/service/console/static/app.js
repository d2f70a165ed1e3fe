// The shell: who is here, which table, which view. Views are modules that load when they are first opened.

import * as api from "./api.js";
import { announce, field, h, options, replace } from "./dom.js";
import { problem } from "./showing.js";

const VIEWS = {
  ask: ["Ask", () => import("./views/ask.js").then((module) => module.ask), () => true],
  explore: ["Explore", () => import("./views/explore.js").then((module) => module.explore), () => true],
  budget: ["Budget", () => import("./views/budget.js").then((module) => module.budget), () => true],
  model: ["Model", () => import("./views/model.js").then((module) => module.model), () => true],
  holdout: ["Holdout", () => import("./views/holdout.js").then((module) => module.holdout), () => true],
  publish: [null, () => import("./views/publish.js").then((module) => module.publish), (who) => who.role === "custodian"],
  custodian: ["Custodian", () => import("./views/custodian.js").then((module) => module.custodian), (who) => who.role !== "analyst"],
};

const main = document.getElementById("main");
const state = { who: null, tables: [] };
const PATIENCE = 250; // milliseconds after which a view that is still loading says so
const TABLELESS = ["custodian", "holdout", "publish"]; // views that open without a table

function asked() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return [VIEWS[path] ? path : "ask", new URLSearchParams(query ?? "")];
}

function theme() {
  const kept = localStorage.getItem("maquette-theme");
  if (kept) document.documentElement.dataset.theme = kept;
  const choice = h("select", { "aria-label": "Colours", onchange: () => choose(choice.value) }, options([["", "Colours: system"], ["light", "Colours: light"], ["dark", "Colours: dark"]], kept ?? ""));
  const choose = (value) => {
    localStorage.setItem("maquette-theme", value);
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
  };
  return choice;
}

function top(view, table) {
  const at = table ? `?${new URLSearchParams({ table: table.name })}` : "";
  const links = Object.entries(VIEWS)
    .filter(([, [title, , allowed]]) => title && allowed(state.who))
    .map(([path, [title]]) => h("a", { href: `#/${path}${at}`, "aria-current": path === view && "page" }, title));
  const choice = h("select", { onchange: () => (location.hash = `#/${view}?${new URLSearchParams({ table: choice.value })}`) }, options(state.tables.map((each) => each.name), table?.name));
  replace(
    document.getElementById("top"),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "#/ask" }, "Maquette"),
      h("nav", { "aria-label": "Views" }, links),
      h("div", { class: "who" }, state.tables.length > 0 && !["holdout", "publish"].includes(view) && h("label", {}, h("span", { class: "soft" }, "Table "), choice), theme(), h("span", { class: "soft" }, state.who.name === state.who.role ? state.who.name : `${state.who.name} (${state.who.role})`), h("button", { type: "button", onclick: leave }, "Sign out")),
    ),
  );
}

async function leave() {
  await api.leave();
  state.who = null;
  location.hash = "";
  login();
}

function login(error = null) {
  const token = h("input", { type: "password", autocomplete: "current-password", required: true, size: 46 });
  const enter = async (event) => {
    event.preventDefault();
    try {
      await api.enter(token.value.trim());
      await start();
    } catch (refusal) {
      login(refusal.status === 401 ? { happened: "this token is unknown, expired or revoked", advice: "check that it was copied whole, or ask the custodian for another" } : refusal);
    }
  };
  replace(document.getElementById("top"));
  replace(
    main,
    h(
      "section",
      { class: "login" },
      h("h1", {}, "Maquette"),
      h("p", {}, "Questions about a private table, answered with noise, each at a known price."),
      error && problem(error),
      h("form", { onsubmit: enter }, field("Your token", token, "The custodian gave it to you; on your own machine, maquette serve prints it."), h("div", { class: "row" }, h("button", { class: "primary" }, "Sign in"))),
    ),
  );
  token.focus();
}

let drawn = 0;

async function show() {
  if (!state.who) return;
  const turn = ++drawn;
  const [view, query] = asked();
  const [title, load] = VIEWS[view];
  const named = state.tables.find((each) => each.name === query.get("table")) ?? state.tables[0];
  document.title = `${title ?? "Publish"} · Maquette`;
  top(view, named);
  const place = h("div", {}, h("p", { class: "soft" }, `Opening ${title ?? "Publish"}…`));
  const slow = setTimeout(() => turn === drawn && replace(main, place), PATIENCE);
  try {
    const table = named && (await api.table(named.name));
    if (!table && !TABLELESS.includes(view)) {
      replace(place, h("section", {}, h("h1", {}, "No table yet"), h("p", {}, "No table is open to you. A custodian publishes one under Custodian.")));
    } else await (await load())(place, { table, query, who: state.who });
  } catch (error) {
    if (error.status === 401) return login();
    replace(place, problem(error));
  } finally {
    clearTimeout(slow);
  }
  if (turn !== drawn) return;
  replace(main, place);
  announce(`${title ?? "Publish a table"} opened.`);
}

export async function start() {
  try {
    state.who = await api.who();
  } catch (error) {
    return login(error.status === 401 ? null : error);
  }
  state.tables = await api.tables();
  await show();
}

window.addEventListener("hashchange", show);
start();
