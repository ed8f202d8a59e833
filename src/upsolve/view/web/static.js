// Where the data of a page without a server come from: its own compressed blocks, each opened when it is first needed.
import { prefix } from "./dom.js";

const blocks = [...document.querySelectorAll("script.data")];
const opened = new Map();

function part(number) {
  if (!opened.has(number)) opened.set(number, unpack(blocks[number].textContent));
  return opened.get(number);
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const PAGE = 100;
const ANSWERS = { info: staticInfo, attempts: staticAttempts, count: staticCount, tasks: staticTasks, attempt: staticAttempt, task: staticTask, group: staticGroup, tokens: staticTokens, metrics: staticMetrics, overview: (data) => ({ block: data.overview }),
  previews: staticPreviews, changes: (data) => data.changes, change: staticChange, change_previews: (data, query) => data.change_previews[query.set] ?? {}, rewards: staticRewards, rewarded: staticRewarded };

export async function get(name, parameters = {}) {
  const whole = await part(0);
  const samples = (parameters.of ?? prefix().slice(0, -1)) === "samples";
  if (samples && whole.samples === undefined) throw new Error("This page has no samples of evaluations.");
  return ANSWERS[name](samples ? await part(whole.samples) : whole, parameters);
}

export async function post() {
  throw new Error("A static page cannot ask a model: use `upsolve view RUN --model`.");
}

function staticInfo(data) {
  const facets = data.info.filters.map(([name, column]) => [name, staticValues(data.rows.flatMap((row) => row[column]).filter(Boolean))]);
  return { ...data.info, groups: staticGroups(staticRows(data)), ready: true, fixed: true, scores: Object.keys(data.groups).length > 0, facets: Object.fromEntries(facets), counts: { attempts: data.rows.length, tasks: data.tasks.length } };
}

function staticValues(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

async function staticMatches(data, query) {
  const text = (query.text ?? "").toLowerCase();
  const given = [...data.info.filters, ["task", "task_id"]].filter(([name]) => query[name] && name !== "finding");
  const found = [];
  for (const [index, row] of data.rows.entries()) {
    if (given.some(([name, column]) => row[column] !== query[name])) continue;
    if (query.finding && !row.rules.some((rule) => rule === query.finding || rule.startsWith(query.finding + ":"))) continue;
    if (text && !(await staticRecord(data, index)).attempt.code.toLowerCase().includes(text)) continue;
    found.push(row);
  }
  return found;
}

async function staticRecord(data, index) {
  return (await part(data.first + Math.floor(index / data.chunk)))[index % data.chunk];
}

function staticPage(rows, after) {
  const rest = rows.filter((row) => row.place > (after ?? -1));
  return { rows: rest.slice(0, PAGE), next: rest.length > PAGE ? rest[PAGE - 1].place : null };
}

const SORTED = { task: (row) => row.task_id, outcome: (row) => row.status, tests: (row) => (row.total ? row.passed / row.total : null), author: (row) => row.author, difficulty: (row) => row.difficulty,
  findings: (row) => row.rules.length, tokens: (row) => row.tokens };

const TASKS_SORTED = { task: (row) => row.task_id, passed: (row) => (row.scored ? row.passed / row.scored : null), attempts: (row) => row.attempts, difficulty: (row) => row.difficulty, language: (row) => row.language };

function staticSorted(rows, sort, after, columns = SORTED) {
  const value = columns[sort.replace("-", "")];
  const sign = sort.startsWith("-") ? -1 : 1;
  const order = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : sign * (a < b ? -1 : 1));
  const from = Math.max(after ?? 0, 0);
  const sorted = [...rows].sort((a, b) => order(value(a), value(b)));
  return { rows: sorted.slice(from, from + PAGE), next: sorted.length > from + PAGE ? from + PAGE : null };
}

async function staticPreviews(data, query) {
  const places = query.places.split(",").map(Number);
  const found = await Promise.all(places.map((place) => staticRecord(data, data.rows.findIndex((row) => row.place === place))));
  return Object.fromEntries(found.map((record, index) => [places[index], record.preview]));
}

async function staticAttempts(data, query) {
  if (query.sort) return staticSorted(await staticMatches(data, query), query.sort, query.after);
  return staticPage(await staticMatches(data, query), query.after);
}

async function staticCount(data, query) {
  return { attempts: (await staticMatches(data, query)).length };
}

function staticGroups(rows) {
  const known = [...Map.groupBy(rows.filter((row) => row.scored && row.difficulty), (row) => row.difficulty)].map(([difficulty, some]) => ({ difficulty,
    passed: some.filter((row) => row.passed === row.scored).length, mixed: some.filter((row) => row.passed && row.passed < row.scored).length, failed: some.filter((row) => !row.passed).length,
    share: some.reduce((sum, row) => sum + row.passed, 0) / some.reduce((sum, row) => sum + row.scored, 0) }));
  return known.sort((a, b) => b.share - a.share || (a.difficulty < b.difficulty ? -1 : 1));
}

function staticRows(data) {
  return data.tasks.map((task, place) => {
    const own = data.rows.filter((row) => row.task_id === task.task_id);
    const scored = own.filter((row) => !["unscored", "unjudged"].includes(row.status));
    const sampled = [...new Set(own.filter((row) => row.sampled).map((row) => `${row.author}, ${row.sampled}`))].sort();
    const counted = (rows, name) => rows.filter((row) => `${row.author}, ${row.sampled}` === name).reduce((sum, row) => sum + row.count, 0);
    const evaluations = sampled.map((name) => ({ name, scored: counted(scored, name), passed: counted(own.filter((row) => row.status === "passed"), name) }));
    return { ...task, place, evaluations, attempts: own.length, scored: scored.length, passed: own.filter((row) => row.status === "passed").length };
  });
}

function staticTasks(data, query) {
  const text = (query.text ?? "").toLowerCase();
  const found = staticRows(data).filter((row) => !text || `${row.task_id}\n${row.prompt}`.toLowerCase().includes(text));
  return query.sort ? staticSorted(found, query.sort, query.after, TASKS_SORTED) : staticPage(found, query.after);
}

async function staticAttempt(data, query) {
  const index = data.rows.findIndex((row) => row.place === query.place);
  if (index < 0) throw new Error(`This page has no attempt ${query.place}.`);
  const record = await staticRecord(data, index);
  const related = (rows) => rows.slice(0, 10);
  return { ...record, task: data.tasks.find((task) => task.task_id === record.attempt.task_id) ?? null,
    parent: related(data.rows.filter((row) => record.attempt.parent_id && row.attempt_id === record.attempt.parent_id)),
    repairs: related(data.rows.filter((row) => row.parent_id === record.attempt.attempt_id)) };
}

function staticTask(data, query) {
  const task = data.tasks.find((each) => each.task_id === query.id);
  if (!task) throw new Error("This page leaves out the task: use `upsolve view` for all tasks.");
  return task;
}

function staticGroup(data, query) {
  return data.groups[query.id] ?? { rows: [], drawn: [] };
}

async function staticTokens(data, query) {
  const index = data.rows.findIndex((row) => row.place === query.place);
  if (index >= data.heats.count) return { spans: [], note: data.heats.note };
  const found = (await part(data.heats.first + Math.floor(index / data.chunk)))[index % data.chunk];
  let end = 0; // spans are written as steps: from the end of the last token to the start of this one, and its length
  const spans = found.steps.map(([skip, length]) => [end + skip, (end += skip + length)]);
  return { ...found, spans };
}

function staticMetrics(data, query) {
  return { rows: data.metrics.slice(query.after), next: data.metrics.length, finished: data.finished };
}

function staticChange(data, query) {
  const found = data.pairs[query.set]?.[query.id];
  if (!found) throw new Error("This page leaves out the programs of the task: use `upsolve view RUN` for all tasks.");
  return found;
}

function staticDrawn(data) {
  return Object.entries(data.groups).flatMap(([task_id, group]) => group.drawn.flatMap(({ round, number, attempts }) =>
    attempts.map(({ reward, advantage }) => ({ task_id, round, number, reward: Number(reward.toFixed(6)), advantage }))));
}

function staticRewards(data) {
  return { values: staticValues(staticDrawn(data).map((row) => row.reward)).sort((a, b) => a[0] - b[0]) };
}

function staticRewarded(data, query) {
  return { rows: staticDrawn(data).filter((row) => Number(query.low) <= row.reward && row.reward <= Number(query.high)).slice(0, 500) };
}
