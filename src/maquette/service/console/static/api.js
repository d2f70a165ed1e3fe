// The HTTP interface, as functions that return what the views need. The browser's session is a cookie that scripts cannot
// read; every change carries the CSRF token that was given at sign-in and is kept for this tab only.

const CSRF = "maquette-csrf";

export class Problem extends Error {
  constructor(status, facts) {
    super(facts.detail ?? facts.title ?? `HTTP ${status}`);
    this.status = status;
    this.happened = facts.happened ?? facts.detail ?? facts.title;
    this.expected = facts.expected;
    this.advice = facts.advice;
    this.code = facts.code;
  }
}

// What the service answers; where nothing answers, that is said in words.
async function reach(address, settings) {
  const response = await fetch(address, { credentials: "same-origin", ...settings }).catch(() => {
    throw new Problem(0, { happened: "the service does not answer", advice: "check that it runs and that you are connected, then try again" });
  });
  if (response.ok) return response;
  const text = await response.text();
  throw new Problem(response.status, /json/.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : { detail: text });
}

async function call(method, path, { body, headers = {}, raw } = {}) {
  const sent = { "X-CSRF-Token": sessionStorage.getItem(CSRF) ?? "", ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const response = await reach(`/v1/${path}`, { method, headers: sent, body: raw ?? (body === undefined ? undefined : JSON.stringify(body)) });
  return response.status === 204 ? null : response.json();
}

const get = (path) => call("GET", path);
const post = (path, body) => call("POST", path, { body });
const name = encodeURIComponent;

// Who is here

export async function enter(token) {
  const told = await call("POST", "session", { headers: { Authorization: `Bearer ${token}` } });
  sessionStorage.setItem(CSRF, told.csrf);
}

export async function leave() {
  await call("DELETE", "session").catch(() => null);
  sessionStorage.removeItem(CSRF);
}

// Who is signed in, and the tables open to them.
export async function here() {
  if (!sessionStorage.getItem(CSRF)) throw new Problem(401, { detail: "not signed in" });
  return Promise.all([get("me"), tables()]);
}

// Tables

export const tables = async () => (await get("tables")).tables;

const ORDERED = ["integer", "number", "date"];

function described(column) {
  const levels = column.labels;
  const edges = column.edges ?? [column.low, column.high];
  const kind = ORDERED.includes(column.kind) ? `${column.kind}, ${edges[0]} to ${edges.at(-1)}` : `${column.kind}, ${column.size} levels`;
  const words = column.nullable ? `${kind}, or missing` : kind;
  return { ...column, levels, words };
}

export async function table(title) {
  const [facts, schema] = await Promise.all([get(`tables/${name(title)}`), get(`tables/${name(title)}/schema`)]);
  const protects = facts.unit ? `everyone with the same ${facts.unit}, at most ${facts.max_contributions} rows each` : facts.relation === "replace" ? "the values of each row" : "the presence and values of each row";
  return { ...facts, protects, columns: schema.columns.map(described) };
}

// Questions

const KINDS = { exact: "promise", promised: "promise", guessed: "guess", cached: "cached", wider: "wider" };
const bound = (value) => (value === "Infinity" ? Infinity : value === "-Infinity" ? -Infinity : value);

// An answer as rows of groups and cells: labels are the groups, numbers with intervals are the cells.
function read(told) {
  const labels = told.columns.filter((column) => !column.low);
  const numbers = told.columns.filter((column) => column.low);
  const count = told.columns[0]?.values.length ?? 0;
  const rows = Array.from({ length: count }, (_, at) => ({
    groups: labels.map((column) => String(column.values[at] ?? "–")),
    cells: numbers.map((column) => ({ value: column.values[at], low: bound(column.low[at]), high: bound(column.high[at]), kind: KINDS[column.standing[at]] ?? "promise" })),
  }));
  return {
    groups: labels.map((column) => column.name),
    columns: numbers.map((column) => column.name),
    rows,
    cost: told.cost,
    paid: told.cost.units > 0,
    confidence: told.confidence,
    guarantee: told.guarantee,
  };
}

export async function ask(title, question) {
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  return read(await call("POST", `tables/${name(title)}/ask`, { body: question, headers }));
}

export async function explain(title, { sql, alpha }) {
  const told = await post(`tables/${name(title)}/explain`, { sql, ...(alpha && { alpha }) });
  return { free: told.cost.units === 0, cost: told.cost, words: told.text, halfWidth: told.half_width };
}

const STORY = { measured: "measured, paid", hypothesis: "answered by the model, tested", derived: "derived from earlier answers, free", cache: "recorded, free" };

const told = ({ source, promised }) => (promised ? STORY[source] ?? source : source === "hypothesis" ? "a guess of the model, free" : `${STORY[source] ?? source}, without a promise`);

// Newest first.
export async function transcript(title) {
  const { questions } = await get(`tables/${name(title)}/transcript?count=10000`);
  return questions.reverse().map((event) => ({ ...event, sql: event.question ?? "", words: told(event) }));
}

export const outlook = async (title) => (await get(`tables/${name(title)}/outlook`)).outlook;

export async function budget(title) {
  const told = await get(`tables/${name(title)}/budget`);
  const limit = { epsilon: told.epsilon, units: told.spent.units + told.remaining.units };
  return { limit, delta: told.delta, spent: told.spent, remaining: told.remaining, own: { spent: told.own_spent, limit: told.own_limit, delta: told.delta } };
}

const DOORS = { measure: "measured", measure_error: "error of a release, measured" };

export async function charges(title) {
  const [{ charges: listed }, whole] = await Promise.all([get(`tables/${name(title)}/charges`), budget(title)]);
  const all = whole.spent.units + whole.remaining.units;
  const about = (columns) => [...new Set(columns.map((each) => each.join(" × ") || "the number of rows"))];
  return listed.map((charge) => ({ number: charge.seq, analyst: charge.analyst, what: [DOORS[charge.door] ?? charge.door.replaceAll("_", " "), about(charge.columns).slice(0, 4).join(", ")].filter(Boolean).join(": "), share: all > 0 ? charge.cost.units / all : 0, state: charge.state }));
}

// The public model

export const picture = (title, columns) => get(`tables/${name(title)}/model?${new URLSearchParams(columns.map((column) => ["column", column]))}`);

// The same of a release: its counts as shares of their sum.
export async function releasePicture(title, release, sql) {
  const { groups, rows } = read(await post(`tables/${name(title)}/releases/${name(release)}/ask`, { sql }));
  const whole = rows.reduce((sum, row) => sum + row.cells[0].value, 0);
  const share = (value) => Math.min(1, Math.max(0, value / whole));
  const cells = rows.map(({ groups: levels, cells: [cell] }) => ({ levels, kind: cell.kind, value: share(cell.value), low: share(cell.low), high: share(cell.high) }));
  return { columns: groups, cells, words: "Shares of the rows, as the release has them." };
}

export const doubts = async (title) => (await get(`tables/${name(title)}/doubts`)).columns;

// Releases

export async function releases(title) {
  const { releases: listed } = await get(`tables/${name(title)}/releases`);
  return listed.map((each) => ({ ...each, id: each.name, title: `${each.name} (${each.method ?? "release"})`, file: `/v1/tables/${name(title)}/releases/${name(each.name)}/download`, report: `/v1/tables/${name(title)}/releases/${name(each.name)}/report` }));
}

export const sampleAddress = (title, release, rows, format) => `/v1/tables/${name(title)}/releases/${name(release)}/sample?rows=${rows}&format=${format}`;

// Twenty rows of CSV as titles and cells; the text is ours, quoted as CSV writers do.
export async function sample(title, release, rows) {
  const text = await (await reach(sampleAddress(title, release, rows, "csv"))).text();
  const [columns, ...lines] = text.trim().split(/\r?\n/).map((each) => [...each.matchAll(/("([^"]|"")*"|[^,]*)(,|$)/g)].map((cell) => cell[1].replace(/^"|"$/g, "").replaceAll('""', '"')).slice(0, -1));
  return { columns, rows: lines };
}

export const jobs = async (title) => (await get(`tables/${name(title)}/jobs`)).jobs;
export const reportAddress = (title) => `/v1/tables/${name(title)}/report`;
export const makeRelease = (title, settings) => post(`tables/${name(title)}/releases`, settings);

const ENDS = ["done", "failed", "lost"];
const TRIES = 5;

async function* events(job, after) {
  const reader = (await reach(`/v1/jobs/${name(job.id)}/events`, { headers: { "Last-Event-ID": String(after) } })).body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const parts = waiting.split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part);
      if (data) yield JSON.parse(data[1]);
    }
  }
}

// The progress of a job: server-sent events until it is over. Where a connection breaks, the next goes on after it.
export async function* progress(job) {
  let seen = 0;
  for (let broken = 0; broken < TRIES; broken += 1) {
    try {
      for await (const event of events(job, seen)) {
        [seen, broken] = [event.number, 0];
        const failed = ["failed", "lost"].includes(event.event) ? new Problem(500, event.error ?? { detail: "the release was interrupted; what it charged stays charged" }) : null;
        yield { share: event.steps ? event.done / event.steps : undefined, words: event.what ?? event.event, failed };
        if (ENDS.includes(event.event)) return;
      }
    } catch (error) {
      if (error.status > 0) throw error; // refused; anything else is a connection that broke
    }
    await new Promise((go) => setTimeout(go, 1000));
  }
  throw new Problem(0, { happened: "the connection broke, and how the release went is not known", advice: "open this page again to see it" });
}

// The custodian's

export const verify = (title) => get(`tables/${name(title)}/verify`);
export const tokens = async () => (await get("tokens")).tokens;
export const revoke = (id) => call("DELETE", `tokens/${name(id)}`);
export const log = async () => (await get("audit?count=10000")).log.reverse();

export const accounts = async (title) => (await get(`tables/${name(title)}/accounts`)).accounts;
export const setLimit = (title, account, epsilon) => call("PUT", `tables/${name(title)}/limits/${name(account.replace("/", "~"))}`, { body: { epsilon } });

export async function invite({ limit, ...person }) {
  const made = await post("tokens", person);
  const open = limit === undefined ? [] : (await tables()).filter((each) => !person.tables || person.tables.includes(each.name));
  await Promise.all(open.map((each) => setLimit(each.name, person.name, limit)));
  return made;
}

// Publishing

export const draft = (file) => call("POST", `drafts/upload?filename=${name(file.name)}`, { raw: file, headers: { "Content-Type": "application/octet-stream" } });
export const revise = (id, changes) => call("PUT", `drafts/${name(id)}`, { body: changes });
export const planDraft = (id, settings) => post(`drafts/${name(id)}/plan`, settings);
export const publish = (id, settings) => post(`drafts/${name(id)}/publish`, settings);

// Holdouts

export const holdouts = async () => (await get("holdouts")).holdouts;
export const leaderboard = async (id) => (await get(`holdouts/${name(id)}/leaderboard`)).entries;
export const register = (settings) => post("holdouts", settings);
export const askHoldout = (id, question) => post(`holdouts/${name(id)}/ask`, question);
export const submit = (id, entry) => post(`holdouts/${name(id)}/entries`, entry);
