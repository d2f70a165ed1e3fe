// The shell: who is here, which table, which view. Views are modules that load when they are first opened.

import * as api from "./api.js";
import { announce, field, h, options, replace } from "./dom.js";
import { problem } from "./showing.js";

const VIEWS = {
  ask: ["Ask", () => import("./views/ask.js").then((module) => module.ask), (who) => who.role !== "auditor"],
  explore: ["Explore", () => import("./views/explore.js").then((module) => module.explore), (who) => who.role !== "auditor"],
  budget: ["Budget", () => import("./views/budget.js").then((module) => module.budget), () => true],
  model: ["Model", () => import("./views/model.js").then((module) => module.model), () => true],
  holdout: ["Holdout", () => import("./views/holdout.js").then((module) => module.holdout), () => true],
  publish: [null, () => import("./views/publish.js").then((module) => module.publish), (who) => who.role === "custodian"],
  custodian: ["Custodian", () => import("./views/custodian.js").then((module) => module.custodian), (who) => who.role !== "analyst"],
};

const main = document.getElementById("main");
const state = { who: null, tables: [] };
const PATIENCE = 250; // milliseconds after which a view that is still loading says so
const THEME = "maquette-theme";
const TABLELESS = ["custodian", "holdout", "publish"]; // views that open without a table

function asked() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const home = state.who.role === "auditor" ? "custodian" : "ask";
  return [VIEWS[path]?.[2](state.who) ? path : home, new URLSearchParams(query ?? "")];
}

function theme() {
  const choice = h("select", { "aria-label": "Colours", onchange: () => choose(choice.value) }, options([["", "Colours: system"], ["light", "Colours: light"], ["dark", "Colours: dark"]], localStorage.getItem(THEME) ?? ""));
  const choose = (value) => {
    localStorage.setItem(THEME, value);
    paint();
  };
  return choice;
}

function paint() {
  const kept = localStorage.getItem(THEME);
  if (kept) document.documentElement.dataset.theme = kept;
  else delete document.documentElement.dataset.theme;
}

const titled = (view) => (view === "custodian" && state.who.role === "auditor" ? "Audit" : VIEWS[view][0] ?? "Publish a table");

function top(view, table) {
  const at = table ? `?${new URLSearchParams({ table: table.name })}` : "";
  const links = Object.entries(VIEWS)
    .filter(([, [title, , allowed]]) => title && allowed(state.who))
    .map(([path]) => h("a", { href: `#/${path}${at}`, "aria-current": path === view && "page" }, titled(path)));
  const choice = h("select", { onchange: () => (location.hash = `#/${view}?${new URLSearchParams({ table: choice.value })}`) }, options(state.tables.map((each) => each.name), table?.name));
  replace(
    document.getElementById("top"),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "#/" }, "Maquette"),
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
  window.requestIdleCallback?.(() => VIEWS.ask[1]()); // the editor is large: it comes while the token is typed
}

let drawn = 0;

async function show() {
  if (!state.who) return;
  const turn = ++drawn;
  const [view, query] = asked();
  const [, load] = VIEWS[view];
  const title = titled(view);
  const named = state.tables.find((each) => each.name === query.get("table")) ?? state.tables[0];
  document.title = `${title} · Maquette`;
  top(view, named);
  const place = h("div", {}, h("p", { class: "soft" }, `Opening ${title}…`));
  const slow = setTimeout(() => turn === drawn && replace(main, place), PATIENCE);
  try {
    const [draw, table] = await Promise.all([load(), named && api.table(named.name)]);
    if (!table && !TABLELESS.includes(view)) {
      replace(place, h("section", {}, h("h1", {}, "No table yet"), h("p", {}, "No table is open to you. A custodian publishes one under Custodian.")));
    } else await draw(place, { table, query, who: state.who });
  } catch (error) {
    if (error.status === 401) return login();
    replace(place, problem(error));
  } finally {
    clearTimeout(slow);
  }
  if (turn !== drawn) return;
  if (place.parentNode !== main) replace(main, place); // one that is in sight already may be in use: it keeps its focus
  announce(`${title} opened.`);
}

export async function start() {
  try {
    [state.who, state.tables] = await api.here();
  } catch (error) {
    return login(error.status === 401 ? null : error);
  }
  await show();
}

paint();
window.addEventListener("hashchange", show);
start();
