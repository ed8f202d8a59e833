// The lists of attempts and tasks: filters, pages, a selected row.
import { el, show, link, outcome, decimal, plural } from "./dom.js";
import { get } from "./source.js";

export const trail = { places: [] };

export async function attemptList(main, query, info, go) {
  const body = el("tbody");
  const counted = el("p", { class: "soft", role: "status" });
  const more = el("button", { type: "button", hidden: true }, "More");
  const head = ["Task", "Outcome", "Tests", "Author", "Difficulty", "Findings", "Tokens"];
  const table = el("table", {}, el("thead", {}, el("tr", {}, head.map(headCell))), body);
  show(main, filterForm(query, info, go), counted, el("div", { class: "wide" }, table), more);
  trail.places = [];
  const load = async (after) => {
    const page = await get("attempts", { ...query, after });
    body.append(...page.rows.map(attemptRow));
    trail.places.push(...page.rows.map((row) => row.place));
    more.hidden = page.next === null;
    more.onclick = () => load(page.next).catch(fail(main));
    if (!body.firstChild) body.append(el("tr", {}, el("td", { colspan: head.length }, "No attempt has all of this.")));
    select(table, selected(table) ?? 0, false);
  };
  await load(-1);
  if (!info.ready) counted.textContent = "The first attempts; the others are being indexed ...";
  else get("count", query).then((answer) => { counted.textContent = plural(answer.attempts ?? 0, "attempt"); }).catch(() => {});
}

function headCell(name) {
  return el("th", { scope: "col", class: ["Author", "Difficulty", "Findings", "Tokens"].includes(name) ? "less" : null }, name);
}

function attemptRow(row) {
  const tests = row.total ? `${row.passed}/${row.total}` : "";
  const name = el("td", {}, link(`attempt/${row.place}`, row.task_id), row.count > 1 ? el("span", { class: "soft" }, ` × ${row.count}`) : null);
  const some = row.rules.slice(0, 4).map((rule) => el("span", { class: "tag" }, rule));
  const rest = row.rules.length > 4 ? el("span", { class: "soft" }, `+${row.rules.length - 4}`) : null;
  return el("tr", {}, name, el("td", {}, outcome(row.status), row.truncated ? el("span", { class: "soft" }, " truncated") : null), el("td", {}, tests),
    el("td", { class: "less" }, row.author), el("td", { class: "less" }, row.difficulty), el("td", { class: "less" }, some, rest),
    el("td", { class: "less" }, decimal(row.tokens)));
}

function filterForm(query, info, go) {
  const form = el("form", { class: "filters", role: "search" });
  const apply = () => go("attempts", Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== "")));
  for (const [name, , label] of info.filters) {
    const values = info.facets ? info.facets[name] : [];
    if (!values.length && !query[name]) continue;
    form.append(el("label", {}, label, values.length > 12 ? typed(form, name, values, query) : choice(name, values, query, apply)));
  }
  form.append(el("label", {}, "Text in the code", el("input", { name: "text", type: "search", value: query.text ?? "", "aria-keyshortcuts": "/" })));
  if (query.task) form.append(el("label", {}, "Task", el("input", { name: "task", value: query.task })));
  form.append(el("button", { type: "submit" }, "Filter"), el("button", { type: "button", onclick: () => go("attempts", {}) }, "Clear"));
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  return form;
}

function choice(name, values, query, apply) {
  const known = values.map(([value, count]) => option(value, `${value} (${count.toLocaleString("en")})`, query[name] === value));
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
  form.addEventListener("submit", (event) => { event.preventDefault(); go("tasks", Object.fromEntries(new FormData(form))); });
  const head = el("tr", {}, ["Task", "Passed", "Attempts", "Difficulty", "Language"].map((name) => el("th", { scope: "col" }, name)));
  const table = el("table", {}, el("thead", {}, head), body);
  const counted = el("p", { class: "soft" }, info.counts ? plural(info.counts.tasks, "task") + " in all" : "Being indexed ...");
  show(main, form, counted, el("div", { class: "wide" }, table), more);
  const load = async (after) => {
    const page = await get("tasks", { ...query, after });
    body.append(...page.rows.map(taskRow));
    more.hidden = page.next === null;
    more.onclick = () => load(page.next).catch(fail(main));
    select(table, selected(table) ?? 0, false);
  };
  await load(-1);
}

function taskRow(row) {
  const named = (row.evaluations ?? []).map((one) => el("div", {}, `${one.name}: ${one.passed} of ${one.scored}`));
  const rate = named.length ? named : row.scored ? `${row.passed} of ${row.scored}` : "";
  return el("tr", {}, el("td", {}, link(`task/${encodeURIComponent(row.task_id)}`, row.task_id)), el("td", {}, rate),
    el("td", {}, decimal(row.attempts)), el("td", {}, row.difficulty), el("td", {}, row.language));
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
