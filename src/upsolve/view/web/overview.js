// The overview of a run, as its report begins; the list of a folder of runs, and several runs together.
import { build, decimal, el, plural, show } from "./dom.js";
import { get } from "./source.js";
import { sortable } from "./table.js";
import { copyButton, copyPrograms } from "./copy.js";

const MOST = 4;

export async function overviewView(main, whole) {
  const page = build((await get("overview", { of: "" })).block);
  const known = [[whole.changes, "changes", "each task before and after"], [whole.samples, "samples/attempts", "what each model answered"], [whole.run, "training", "curves of training"]].filter(([shown]) => shown);
  const links = known.map(([, path, text], index) => [index ? ", " : "", el("a", { href: `#/${path}` }, text)]);
  (page.querySelector(".bars") ?? page.querySelector(".verdict")).after(el("p", {}, "Look at ", links));
  const counts = whole.changes && [...page.querySelectorAll(".verdict p")].map((line) => [line, line.textContent.match(/^(.*?)([\d,]+ better), ([\d,]+ worse)(.*)$/)]).find(([, match]) => match);
  if (counts) show(counts[0], counts[1][1], el("a", { href: "#/changes?show=better" }, counts[1][2]), ", ", el("a", { href: "#/changes?show=worse" }, counts[1][3]), counts[1][4]);
  if (whole.changes) for (const task of page.querySelectorAll(":scope > details")) task.append(el("p", {}, el("a", { href: `#/change/${encodeURIComponent(task.querySelector("b").textContent)}` }, "all answers to this task")));
  for (const command of page.querySelectorAll(":scope > dl.facts code")) command.after(" ", copyButton("Copy", command.textContent));
  copyPrograms(page);
  show(main, page);
}

const RESULTS = [
  { name: "Run", cell: (row) => el("a", { href: `run/${encodeURIComponent(row.name)}/` }, row.name) }, { name: "Conclusion", cell: (row) => row.conclusion },
  { name: "Change, points", cell: (row) => row.change, value: (row) => row.after - row.before, right: true }, { name: "Beyond its control, points", cell: (row) => row.beyond, value: (row) => (row.beyond ? parseFloat(row.beyond) : -Infinity), right: true },
  { name: "Base, %", cell: (row) => percent(row.before), value: (row) => row.before, right: true, less: true }, { name: "Trained, %", cell: (row) => percent(row.after), value: (row) => row.after, right: true, less: true },
  { name: "Steps", cell: (row) => decimal(row.steps), value: (row) => row.steps ?? -1, right: true, less: true },
  { name: "Verdicts", cell: (row) => row.verdicts, less: true }, { name: "Recipe", cell: (row) => row.recipe, less: true },
];

export async function runsView(main, go) {
  const { rows } = await get("runs");
  const said = el("p", { class: "soft", role: "status" }, plural(rows.length, "run"), "; mark two to four to compare them.");
  const boxes = rows.map((row) => el("input", { type: "checkbox", name: row.name, "aria-label": `compare ${row.name}` }));
  const button = el("button", { type: "button", id: "compare", onclick: () => {
    const names = boxes.filter((box) => box.checked).map((box) => box.name);
    if (names.length < 2 || names.length > MOST) said.textContent = `${names.length} marked: mark two to four runs.`;
    else go("compare-runs", { names: names.join("|") });
  } }, "Compare the marked runs");
  show(main, el("h2", {}, "Runs"), said, el("p", {}, button), sortable([{ name: "", cell: (row) => boxes[rows.indexOf(row)] }, ...RESULTS], rows));
}

export async function compareRuns(main, query) {
  const [data, { rows }] = await Promise.all([get("compare", { names: query.names }), get("runs")]);
  const names = query.names.split("|");
  const passed = (count) => (count ? `${count[0]} of ${count[1]}` : "–");
  const moved = (value) => (value === undefined || value === null ? "" : ` (${value > 0 ? "+" : ""}${decimal(100 * value)})`);
  const columns = [{ name: "Task", cell: (row) => row.task_id }, ...data.runs.map((name, index) => ({ name, right: true,
    cell: (row) => passed(row.passed[index]) + moved(row.change[index]), value: (row) => (row.passed[index] ? row.passed[index][0] / row.passed[index][1] : -1) }))];
  show(main, el("h2", {}, names.join(", ")), sortable(RESULTS, rows.filter((row) => names.includes(row.name))), build(data.note));
  if (data.curves.length > 2) main.append(el("h2", {}, "Training"), build(data.curves)); // after its name and attributes it has figures
  if (data.rows.length) main.append(el("h2", {}, "Tasks, the largest differences between runs first"), el("p", { class: "soft" }, "Samples of the trained model that passed, each at its best temperature; in brackets the change to its base, points."), sortable(columns, data.rows, { key: "tasks" }));
}

function percent(value) {
  return value === undefined || value === null ? "" : (100 * value).toFixed(1);
}
