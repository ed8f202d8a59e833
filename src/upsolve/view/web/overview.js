// The overview of a run, as its report begins; the list of a folder of runs, and several runs together.
import { build, decimal, el, plural, show } from "./dom.js";
import { get } from "./source.js";
import { sortable } from "./table.js";

const MOST = 4;

export async function overviewView(main) {
  show(main, build((await get("overview", { of: "" })).block));
}

export async function runsView(main, go) {
  const { rows } = await get("runs");
  const said = el("p", { class: "soft", role: "status" }, plural(rows.length, "run"), "; mark two to four to compare them.");
  const boxes = rows.map((row) => el("input", { type: "checkbox", name: row.name, "aria-label": `compare ${row.name}` }));
  const button = el("button", { type: "button", id: "compare", onclick: () => {
    const names = boxes.filter((box) => box.checked).map((box) => box.name);
    if (names.length < 2 || names.length > MOST) said.textContent = `${names.length} marked: mark two to four runs.`;
    else go("compare-runs", { names: names.join("|") });
  } }, "Compare the marked runs");
  const columns = [
    { name: "", cell: (row) => boxes[rows.indexOf(row)] },
    { name: "Run", cell: (row) => el("a", { href: `run/${encodeURIComponent(row.name)}/` }, row.name) }, { name: "Conclusion", cell: (row) => row.conclusion },
    { name: "Change, points", cell: (row) => row.change, value: (row) => row.after - row.before, right: true },
    { name: "Base, %", cell: (row) => percent(row.before), value: (row) => row.before, right: true }, { name: "Trained, %", cell: (row) => percent(row.after), value: (row) => row.after, right: true },
    { name: "Steps", cell: (row) => decimal(row.steps), value: (row) => row.steps, right: true },
    { name: "Verdicts", cell: (row) => row.verdicts, less: true }, { name: "Recipe", cell: (row) => row.recipe, less: true },
  ];
  show(main, el("h2", {}, "Runs"), said, button, sortable(columns, rows));
}

export async function compareRuns(main, query) {
  const data = await get("compare", { names: query.names });
  const passed = (count) => (count ? `${count[0]} of ${count[1]}` : "–");
  const moved = (value) => (value === undefined || value === null ? "" : ` (${value > 0 ? "+" : ""}${decimal(100 * value)})`);
  const columns = [{ name: "Task", cell: (row) => row.task_id }, ...data.runs.map((name, index) => ({ name, right: true,
    cell: (row) => passed(row.passed[index]) + moved(row.change[index]), value: (row) => (row.passed[index] ? row.passed[index][0] / row.passed[index][1] : -1) }))];
  show(main, el("h2", {}, query.names.split("|").join(", ")), build(data.curves), build(data.note),
    el("h2", {}, "Tasks, those first on which the runs differ most"), el("p", { class: "soft" }, "Samples of the trained model that passed, each at its best temperature; in brackets the change to its base, points."),
    sortable(columns, data.rows));
}

function percent(value) {
  return value === undefined || value === null ? "" : (100 * value).toFixed(1);
}
