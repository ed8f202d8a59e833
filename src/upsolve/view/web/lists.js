// The lists of attempts and tasks: filters, pages, a selected row.
import { el, facts, show, link, outcome, decimal, plural } from "./dom.js";
import { get } from "./source.js";

const COLUMNS = [["task", "Task"], ["outcome", "Outcome"], ["tests", "Tests"], ["", "Code and error"], ["author", "Author"], ["difficulty", "Difficulty"], ["findings", "Findings"], ["tokens", "Tokens"]];
const TASK_COLUMNS = [["task", "Task"], ["passed", "Passed"], ["attempts", "Attempts"], ["difficulty", "Difficulty"], ["language", "Language"]];
const LESS = ["Author", "Difficulty", "Findings", "Tokens", "Language"];
const OPENED = /^#\/(?:samples\/)?(attempt|task|change|group)\//;
const trails = new Map(); // kind of page -> the list by which one was opened last, and the address of that list
const left = new Map(); // address of a list -> number of its rows, and which one was selected, when another page was opened

export async function attemptList(main, query, info, go) {
  const body = el("tbody");
  const counted = el("p", { class: "soft", role: "status" });
  const more = el("button", { type: "button", hidden: true }, "More");
  const heads = COLUMNS.map(([key, name]) => headCell(key, name, query, go, "attempts"));
  const table = el("table", {}, el("thead", {}, el("tr", {}, heads)), body);
  show(main, filterForm(query, info, go), counted, el("div", { class: "wide" }, table), more);
  const load = async (after) => {
    const page = await get("attempts", { ...query, after });
    const rows = page.rows.map(attemptRow);
    body.append(...rows);
    more.hidden = page.next === null;
    more.onclick = () => load(page.next).catch(fail(main));
    table.loadMore = () => page.next === null || load(page.next);
    if (!body.firstChild) body.append(el("tr", {}, el("td", { colspan: COLUMNS.length }, "No attempt matches all filters.")));
    hideEmpty(table);
    select(table, selected(table) ?? 0, false);
    if (info.ready && page.rows.length) preview(page.rows, rows).then(() => hideEmpty(table)).catch(() => {});
    return page.next;
  };
  await load(-1).then((next) => keepRow(table, load, next));
  if (!info.ready) counted.textContent = "The first attempts; the others are being indexed ...";
  else get("count", query).then((answer) => { table.total = answer.attempts; show(counted, noted(plural(answer.attempts ?? 0, "attempt"), info)); }).catch(() => {});
}

function noted(text, info) {
  return info.note ? `${text}; ${info.note}` : text;
}

// A click on a link of a list: the list is where the page that it opens has its neighbours.
export function follow(event) {
  const opened = event.target.closest("a");
  const list = opened?.closest("table, .list");
  if (list && OPENED.test(opened.hash)) trails.set(opened.hash.match(OPENED)[1], { list, address: location.hash });
}

// Links to the neighbours of this page in the list by which it was opened, and its number there; null without a list, which keeps the row.
export async function neighbours() {
  const { list, address } = trails.get(location.hash.match(OPENED)?.[1]) ?? {};
  const links = () => [...new Map([...(list?.querySelectorAll("a") ?? [])].filter((one) => OPENED.test(one.hash)).map((one) => [one.hash, one])).values()];
  const at = links().findIndex((one) => one.hash === location.hash);
  if (at < 0) return null;
  if (at === links().length - 1 && list.loadMore) await list.loadMore();
  const all = links();
  const row = all[at].closest("tbody tr");
  if (row) left.set(address, { rows: row.parentNode.rows.length, at: row.sectionRowIndex });
  const beside = (by, id, key, text) => (all[at + by] ? el("a", { id, class: "button", href: all[at + by].hash, "aria-keyshortcuts": key }, text) : el("span", { class: "button soft" }, text));
  return el("p", { class: "steps-bar" }, beside(-1, "previous", "ArrowLeft", "← Previous"), beside(1, "next", "ArrowRight", "Next →"),
    el("a", { href: address || "#/attempts" }, `${(at + 1).toLocaleString("en")} of ${(list.total ?? all.length).toLocaleString("en")}`));
}

// Where the reader left this list, the row is selected again, and as many rows are loaded; the list remembers it when it is left.
export async function keepRow(table, load, next) {
  const known = left.get(location.hash);
  table.addEventListener("click", (event) => {
    const row = event.target.closest("tbody tr");
    if (row && event.target.closest("a")) left.set(location.hash, { rows: table.tBodies[0].rows.length, at: row.sectionRowIndex });
  });
  if (!known) return;
  while (next !== null && next !== undefined && table.tBodies[0].rows.length < known.rows) next = await load(next);
  select(table, known.at, false);
  requestAnimationFrame(() => select(table, known.at));
}

// The first lines of code and of errors, after the list is shown.
export async function preview(rows, shown, at = 3) {
  const found = await get("previews", { places: rows.map((row) => row.place).join(",") });
  rows.forEach((row, index) => {
    const { code, error } = found[row.place] ?? { code: "", error: "" };
    show(shown[index].cells[at], code ? el("code", {}, code) : null, error ? el("div", { class: "failed" }, error) : null);
  });
}

export function headCell(key, name, query, go, list) {
  const less = ["attempts", "tasks"].includes(list) && LESS.includes(name);
  const kind = [less ? "less" : "", ["Tests", "Tokens", "Attempts", "Passed"].includes(name) ? "number" : ""].join(" ").trim() || null;
  if (!key) return el("th", { scope: "col", class: name === "Code and error" ? "preview" : null }, name);
  const sorted = (query.sort ?? "").replace("-", "") === key ? (query.sort.startsWith("-") ? "descending" : "ascending") : null;
  const next = sorted === "ascending" ? `-${key}` : sorted === "descending" ? "" : key;
  const sort = () => go(list, Object.fromEntries(Object.entries({ ...query, sort: next }).filter(([, value]) => value)));
  return el("th", { scope: "col", class: kind, "aria-sort": sorted }, el("button", { type: "button", class: "sort", onclick: sort }, name));
}

export function hideEmpty(table) {
  const rows = [...table.tBodies[0].rows].filter((row) => row.cells.length > 1);
  if (!rows.length) return;
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    const empty = index > 1 && rows.every((row) => !row.cells[index].textContent);
    for (const row of [table.tHead.rows[0], ...rows]) row.cells[index].hidden = empty;
  });
}

function attemptRow(row) {
  const tests = row.total ? `${row.passed}/${row.total}` : "";
  const name = el("td", {}, link(`attempt/${row.place}`, row.task_id), row.count > 1 ? el("span", { class: "soft" }, ` ×\u00a0${row.count}`) : null);
  const some = row.rules.slice(0, 4).map((rule) => el("span", { class: "tag" }, rule));
  const rest = row.rules.length > 4 ? el("span", { class: "soft" }, `+${row.rules.length - 4}`) : null;
  return el("tr", {}, name, el("td", {}, outcome(row.status), row.truncated ? el("span", { class: "soft" }, " truncated") : null), el("td", { class: "number" }, tests), el("td", { class: "preview" }),
    el("td", { class: "less" }, row.author), el("td", { class: "less" }, row.difficulty), el("td", { class: "less" }, some, rest),
    el("td", { class: "less number" }, decimal(row.tokens)));
}

function filterForm(query, info, go) {
  const form = el("form", { class: "filters", role: "search" });
  const apply = () => go("attempts", Object.fromEntries([...new FormData(form), ["sort", query.sort ?? ""]].filter(([, value]) => value !== "")));
  for (const [name, , label] of info.filters) {
    const values = info.facets ? info.facets[name] : [];
    if (!values.length && !query[name]) continue;
    form.append(el("label", {}, label, values.length > 12 ? typed(form, name, values, query) : choice(name, values, query, apply)));
  }
  form.append(el("label", {}, "Text in the code", el("input", { name: "text", type: "search", value: query.text ?? "", "aria-keyshortcuts": "/" })));
  if (query.task) form.append(el("label", {}, "Task", el("input", { name: "task", value: query.task })));
  form.append(el("div", {}, el("button", { type: "submit" }, "Filter"), " ", el("button", { type: "button", onclick: () => go("attempts", {}) }, "Clear")));
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  return form;
}

function choice(name, values, query, apply) {
  const known = values.map(([value, count]) => option(value, `${name === "status" ? value.replace(/_/g, " ") : value} (${count.toLocaleString("en")})`, query[name] === value));
  const odd = query[name] && !values.some(([value]) => value === query[name]) ? [option(query[name], query[name], true)] : [];
  return el("select", { name, onchange: apply }, option("", "any", !query[name]), known, odd);
}

function option(value, text, chosen) {
  return el("option", { value, selected: chosen }, text);
}

function typed(form, name, values, query) {
  form.append(el("datalist", { id: `known-${name}` }, values.map(([value]) => el("option", { value }))));
  return el("input", { name, list: `known-${name}`, value: query[name] ?? "", autocomplete: "off" });
}

export async function taskList(main, query, info, go) {
  const body = el("tbody");
  const more = el("button", { type: "button", hidden: true }, "More");
  const form = el("form", { class: "filters", role: "search" }, el("label", {}, "Text in name or prompt",
    el("input", { name: "text", type: "search", value: query.text ?? "", "aria-keyshortcuts": "/" })), el("button", { type: "submit" }, "Filter"));
  form.addEventListener("submit", (event) => { event.preventDefault(); go("tasks", Object.fromEntries([...new FormData(form), ["sort", query.sort ?? ""]].filter(([, value]) => value !== ""))); });
  const head = el("tr", {}, TASK_COLUMNS.map(([key, name]) => headCell(key, name, query, go, "tasks")));
  const table = el("table", {}, el("thead", {}, head), body);
  const counted = el("p", { class: "soft" }, info.counts ? noted(plural(info.counts.tasks, "task") + " in all", info) : "Being indexed ...");
  show(main, form, counted, groupCounts(info.groups ?? []), el("div", { class: "wide" }, table), more);
  const load = async (after) => {
    const page = await get("tasks", { ...query, after });
    body.append(...page.rows.map(taskRow));
    hideEmpty(table);
    more.hidden = page.next === null;
    more.onclick = () => load(page.next).catch(fail(main));
    table.loadMore = () => page.next === null || load(page.next);
    select(table, selected(table) ?? 0, false);
    return page.next;
  };
  await load(-1).then((next) => keepRow(table, load, next));
}

// How many groups, the attempts at a task, all passed, are mixed, or all failed, by difficulty; null without difficulties.
function groupCounts(groups) {
  const counted = (row) => `${decimal(row.passed)} all passed, ${decimal(row.mixed)} mixed, ${decimal(row.failed)} all failed`;
  return groups.length ? el("div", { id: "groups" }, facts(groups.map((row) => [row.difficulty, counted(row)]))) : null;
}

function taskRow(row) {
  const named = byModel(row.evaluations ?? []);
  const rate = named.length ? named : row.scored ? `${row.passed} of ${row.scored}` : "";
  return el("tr", {}, el("td", {}, link(`task/${encodeURIComponent(row.task_id)}`, row.task_id)), el("td", { class: "number" }, rate),
    el("td", { class: "number" }, decimal(row.attempts)), el("td", { class: "less" }, row.difficulty), el("td", { class: "less" }, row.language));
}

// A line for each model, with its passed samples at each temperature; the task set is named where a task is in several.
function byModel(evaluations) {
  const parts = evaluations.map((one) => ({ ...one, words: one.name.match(/^(.*?), (.*), ([^,]*)$/)?.slice(1) ?? [one.name, "", ""] }));
  const several = new Set(parts.map(({ words }) => words[1])).size > 1;
  const models = Map.groupBy(parts, ({ words }) => words[0] + (several ? `, ${words[1]}` : ""));
  return [...models].map(([name, ones]) => el("div", {}, `${name} `, ones.map(({ words, passed, scored }) => [el("span", {}, `${passed}/${scored} (${words[2]})`), " "])));
}

export function fail(main) {
  return (error) => main.prepend(el("p", { class: "error", role: "alert" }, error.message));
}

export function selected(table) {
  const at = [...table.tBodies[0].rows].findIndex((row) => row.getAttribute("aria-selected") === "true");
  return at < 0 ? null : at;
}

export function select(table, index, focus = true) {
  const rows = [...table.tBodies[0].rows];
  const at = Math.max(0, Math.min(rows.length - 1, index));
  rows.forEach((row, number) => row.setAttribute("aria-selected", String(number === at)));
  if (!focus || !rows[at]) return;
  rows[at].querySelector("a")?.focus();
  rows[at].scrollIntoView({ block: "nearest" });
}
