// Base and trained model task by task, one group side by side, and the attempts of a range of rewards.
import { build, decimal, el, link, outcome, plural, show } from "./dom.js";
import { get } from "./source.js";
import { codeView } from "./code.js";
import { copyPrograms } from "./copy.js";
import { keepRow } from "./lists.js";
import { ordered, queryNow, sortable } from "./table.js";

const KEPT = { all: () => true, changed: (row) => row.change !== 0, better: (row) => row.change > 0, worse: (row) => row.change < 0 };
const EMPTY = { all: "No task is evaluated.", changed: "No task changed.", better: "No task got better.", worse: "No task got worse." };
const BINS = 20;
const MOST_SIDE = 16;

export async function changesView(main, query, go) {
  const { sets } = await get("changes", { of: "" });
  if (!sets.length) return show(main, el("p", {}, "The base and the trained model are not both evaluated yet."));
  const number = Math.min(Number(query.set ?? 0), sets.length - 1);
  const { label, rows } = sets[number];
  const wanted = query.show in KEPT ? query.show : "all";
  const choose = el("select", { class: "wide", onchange: (event) => go("changes", { ...queryNow(), set: event.target.value }) },
    sets.map((one, index) => el("option", { value: index, selected: index === number }, one.label)));
  const buttons = Object.entries(KEPT).map(([name, keeps]) => el("button", { type: "button", "aria-pressed": String(name === wanted),
    onclick: () => go("changes", { ...queryNow(), show: name }) }, `${name} (${rows.filter(keeps).length.toLocaleString("en")})`));
  const seen = await get("change_previews", { of: "", set: number });
  const table = sortable(columnsOf(sets[number], seen), rows.filter(KEPT[wanted]), { empty: EMPTY[wanted] });
  table.className = "changes";
  show(main, el("form", { class: "filters" }, el("label", {}, "Task set and temperature", choose), el("div", { role: "group", "aria-label": "Tasks" }, buttons)),
    el("p", { class: "soft", role: "status" }, `${label}: samples that passed, and one answer of each model`), table);
  const list = table.querySelector("table");
  keepRow(list, () => (list.loadMore() === true ? null : true), true);
}

// seen: previews of the tasks, by name; without them the columns only sort
function columnsOf({ before, after }, seen = {}) {
  const share = ([passed, samples]) => passed / samples;
  const answers = [before, after].map(({ name }, side) => ({ name, kind: "answer", value: (row) => share(side ? row.after : row.before),
    cell: (row) => answerCell(name, side ? row.after : row.before, seen[row.task_id]?.answers[side]) }));
  return [
    { name: "Task", value: (row) => row.task_id, cell: (row) => el("div", {}, el("a", { href: `#/change/${encodeURIComponent(row.task_id)}?${new URLSearchParams(queryNow())}` }, row.task_id), el("div", {}, seen[row.task_id]?.question)) },
    { name: "Difficulty", cell: (row) => row.difficulty, less: true },
    ...answers,
    { name: "Change, points", cell: (row) => moved(row.change), value: (row) => row.change, right: true },
  ];
}

function answerCell(name, [passed, samples], answer) {
  const shown = answer && [el("code", {}, answer.code || "empty"), el("div", { class: "failed" }, outcome(answer.status), answer.reason && `: ${answer.reason}`)];
  return el("div", {}, el("div", {}, el("span", { class: "more" }, `${name}: `), `${passed} of ${samples}`), shown ?? null);
}

function moved(change) {
  return el("span", { class: change > 0 ? "passed" : change < 0 ? "failed" : "soft" }, `${change > 0 ? "+" : ""}${decimal(100 * change)}`);
}

export async function changeView(main, id, query) {
  const number = Number(query.set ?? 0);
  const [{ sets }, pair] = await Promise.all([get("changes", { of: "" }), get("change", { of: "", id, set: number })]);
  const { label, before, after, rows } = sets[number];
  const kept = rows.filter(KEPT[query.show] ?? KEPT.all);
  const names = ordered(columnsOf(sets[number]), kept, query.sort).map((row) => row.task_id); // as the list that leads here
  const beside = (by, name) => ((other) => other === undefined ? null : [" · ", el("a", { id: name, href: `#/change/${encodeURIComponent(other)}?${new URLSearchParams(query)}` }, name)])(names[names.indexOf(id) + by]);
  const [, , [, , , moves], ...parts] = pair.block; // its first line has the name, which the headline has, and the change
  show(main, el("h2", {}, el("a", { href: `#/task/${encodeURIComponent(id)}` }, id), build(moves)),
    el("p", { class: "soft" }, label, " · ", el("a", { href: `#/changes?${new URLSearchParams(query)}` }, "all tasks"), beside(-1, "previous"), beside(1, "next")),
    parts.map(build), el("h2", {}, "All answers"), el("div", { class: "pair" }, [before, after].map((one) => sampleLinks(id, one))));
  copyPrograms(main);
}

function sampleLinks(task, { name, sampled }) {
  const said = el("span", { class: "soft" }, "being read ...");
  const box = el("div", { class: "list" }, el("b", {}, `${name}: `), said);
  indexed().then(() => get("attempts", { of: "samples", task, author: name, sampled })).then((page) => {
    said.remove();
    box.append(...page.rows.flatMap((row, index) => [el("a", { href: `#/samples/attempt/${row.place}` }, `${index + 1}`), " ", outcome(row.status), "  "]));
    if (!page.rows.length) box.append("none in the evaluation");
  }).catch((error) => { said.textContent = error.message; });
  return box;
}

async function indexed() {
  for (let info = {}; !info.ready && !info.error; info = await get("info", { of: "samples" })) await new Promise((done) => setTimeout(done, info.title ? 500 : 0));
}

// The attempts of a group side by side: as trained on, or all judged attempts at the task.
export async function groupView(main, id, round, number) {
  const group = await get("group", { id });
  const drawn = group.drawn.find((each) => String(each.round) === round && String(each.number) === number);
  const rows = (drawn ? drawn.attempts : group.rows).slice(0, MOST_SIDE);
  const rest = (drawn ? drawn.attempts : group.rows).length - rows.length;
  const full = await Promise.all(rows.map((row) => get("attempt", { place: row.place })));
  const columns = rows.map((row, index) => {
    const { attempt, verdicts } = full[index];
    return el("div", {}, el("p", {}, link(`attempt/${row.place}`, `attempt ${index + 1}`), " ", verdicts[0] ? outcome(verdicts[0].status) : null,
      el("br"), `reward ${decimal(row.reward)}`, row.advantage === null || row.advantage === undefined ? null : [", advantage ", el("b", {}, `${row.advantage > 0 ? "+" : ""}${decimal(row.advantage)}`)]),
    verdicts[0]?.reason ? build(verdicts[0].reason) : null, codeView(attempt.code, []));
  });
  show(main, el("h2", {}, link(`task/${encodeURIComponent(id)}`, id)),
    el("p", { class: "soft" }, drawn ? `Group ${number} of round ${round}, as trained on.` : `All judged attempts${group.note ? `; advantages ${group.note}` : ""}.`, rest ? ` ${plural(rest, "more attempt")} not shown.` : ""),
    el("div", { class: "group", tabindex: 0, role: "group", "aria-label": "Attempts of the group" }, columns));
}

// A histogram of rewards, each bin a link to its attempts.
export async function rewardBins() {
  const { values } = await get("rewards", { of: "" });
  if (!values.length) return null;
  const [low, high] = [values[0][0], values[values.length - 1][0]];
  const single = values.length <= BINS;
  const bins = single ? values.map(([value, count]) => ({ low: value, high: value, count })) : binned(values, low, (high - low) / BINS);
  const most = Math.max(...bins.map(({ count }) => count));
  const bars = bins.filter(({ count }) => count).map((bin) => el("tr", {}, el("th", { scope: "row", class: "number" }, single ? decimal(bin.low) : `${decimal(bin.low)} to ${decimal(bin.high)}`),
    el("td", {}, el("a", { href: `#/rewards?low=${bin.low}&high=${bin.high}` }, plural(bin.count, "attempt"))), el("td", { class: "bar" }, el("meter", { min: 0, max: most, value: bin.count, "aria-label": plural(bin.count, "attempt") }))));
  return el("section", { id: "rewards" }, el("h2", {}, "Rewards of the attempts in groups"), el("div", { class: "wide" }, el("table", {}, el("tbody", {}, bars))));
}

function binned(values, low, width) {
  const bins = Array.from({ length: BINS }, () => ({ low: Infinity, high: -Infinity, count: 0 }));
  for (const [value, count] of values) {
    const bin = bins[Math.min(BINS - 1, Math.floor((value - low) / width))];
    Object.assign(bin, { low: Math.min(bin.low, value), high: Math.max(bin.high, value), count: bin.count + count });
  }
  return bins;
}

export async function rewardsView(main, query) {
  const { rows } = await get("rewarded", { of: "", low: query.low, high: query.high });
  const columns = [
    { name: "Task", cell: (row) => el("a", { href: `#/group/${encodeURIComponent(row.task_id)}/${row.round}/${row.number}` }, row.task_id) },
    { name: "Round", cell: (row) => row.round, right: true }, { name: "Group", cell: (row) => row.number, right: true },
    { name: "Reward", cell: (row) => decimal(row.reward), value: (row) => row.reward, right: true },
    { name: "Advantage", cell: (row) => decimal(row.advantage), value: (row) => row.advantage, right: true },
  ];
  const between = query.low === query.high ? `of ${query.low}` : `from ${query.low} to ${query.high}`;
  show(main, el("h2", {}, `Attempts with a reward ${between}`), el("p", { class: "soft" }, `${plural(rows.length, "attempt")}${rows.length === 500 ? ", the first ones" : ""}; each opens its group.`), sortable(columns, rows));
}
