// One attempt, two attempts side by side, and a task with its group.
import { build, el, show, link, prefix, outcome, decimal, facts, plural } from "./dom.js";
import { get } from "./source.js";
import { codeView } from "./code.js";
import { copyButton } from "./copy.js";
import { headCell, hideEmpty, keepRow, preview } from "./lists.js";
import { diffLines, diffWords } from "./diff.js";

export const marked = { place: null };
const HEATS = [["rewards", "reward"], ["advantages", "advantage"], ["logps", "log-probability"]];

export async function attemptView(main, place, info) {
  const data = await get("attempt", { place });
  const { attempt, task } = data;
  const verdict = data.verdicts[0];
  const code = el("div");
  const findings = verdict ? verdict.findings : [];
  const ran = verdict ? verdict.executed_lines : null;
  show(code, codeView(attempt.code, findings, { ran, syntax: attempt.syntax }));
  const path = `task/${encodeURIComponent(attempt.task_id)}`;
  const why = verdict?.reason ? el("section", {}, el("h3", {}, "Why it did not pass"), build(verdict.reason)) : null;
  show(main, el("div", { class: "heat head" }, el("div", {}, el("h2", {}, link(path, attempt.task_id)), verdict ? verdictHead(verdict) : el("p", {}, "Not judged yet.")), el("div", { class: "tools" }, compareButton(place), copyButton("Copy the code", attempt.code), copyButton("Copy the link", location.href.replace(/#.*/, "") + location.hash),
      downloadLink(attempt), link(path, "All attempts"))),
    el("div", { class: "sides" }, task?.prompt.trim() ? el("section", {}, el("h3", {}, "Task"), el("pre", { class: "prompt", tabindex: 0 }, task.prompt)) : null, why),
    el("h3", {}, attempt.author ? `Attempt of ${attempt.author}` : "Attempt"), info.scores ? heatBar(code, data, place) : null, code,
    verdict ? tests(verdict, task, place, info) : null,
    verdict ? folded("More on the verdict", verdictFacts(verdict)) : null, folded("More on the attempt", attemptFacts(data)),
    attempt.answer ? folded("Whole answer", el("pre", {}, attempt.answer)) : null,
    data.verdicts.slice(1).map((other) => el("details", {}, el("summary", {}, `Verdict of ${other.judge}: `, outcome(other.status)), verdictFacts(other))));
}

function folded(name, content) {
  return el("details", {}, el("summary", {}, name), content);
}

function verdictHead(verdict) {
  const scores = verdict.findings.filter((finding) => finding.kind === "score").map((finding) => `${finding.rule} ${decimal(finding.value)}`).join(", ");
  const points = verdict.findings.filter((finding) => finding.kind === "points" && !finding.rule).map((finding) => `${decimal(finding.value)} of 1`).join("");
  const counted = verdict.total ? `, ${verdict.passed} of ${plural(verdict.total, "test")} passed` : "";
  return el("p", { class: "outcome" }, el("b", {}, outcome(verdict.status)), counted, verdict.error_line ? `, error in line ${verdict.error_line}` : "", points ? `; points ${points}` : "", scores ? `; scores ${scores}` : "");
}

const ENDINGS = { python: "py", pypy: "py", cpp: "cpp", javascript: "js", typescript: "ts", rust: "rs", ruby: "rb", haskell: "hs", bash: "sh", duckdb: "sql", ocaml: "ml", racket: "rkt", perl: "pl", fortran: "f90", ada: "adb", pascal: "pas" };

function downloadLink(attempt) {
  const name = `${attempt.task_id.replace(/[^\w.-]+/g, "_").slice(-60)}.${ENDINGS[attempt.language] ?? (attempt.language || "txt")}`;
  return el("button", { type: "button", onclick: () => {
    const address = URL.createObjectURL(new Blob([attempt.code], { type: "text/plain" }));
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } }, "Download the code");
}

function compareButton(place) {
  if (marked.place !== null && marked.place !== place) {
    return link(`compare/${marked.place}/${place}`, "Compare with the marked attempt", { id: "compare" });
  }
  const mark = () => { marked.place = place; };
  return el("button", { type: "button", id: "compare", "aria-keyshortcuts": "c", onclick: (event) => { mark(); event.target.textContent = "Marked: open another attempt to compare"; } },
    marked.place === place ? "Marked: open another attempt to compare" : "Mark to compare");
}

function verdictFacts(verdict) {
  const error = [verdict.error_type, verdict.error_message].filter(Boolean).join(": ");
  return facts([
    ["Outcome", outcome(verdict.status)], ["Tests passed", verdict.total ? `${verdict.passed} of ${verdict.total}` : ""],
    ["Error", error && error + (verdict.error_line ? ` (line ${verdict.error_line})` : "")], ["Judge", verdict.judge], ["Isolation", verdict.isolation],
    ["Processor time", verdict.cpu_seconds === null ? "" : `${decimal(verdict.cpu_seconds)} s`],
    ["Memory", verdict.memory_bytes ? `${decimal(verdict.memory_bytes / 1048576)} MiB` : ""],
    ["Output", verdict.stdout_head && el("pre", {}, verdict.stdout_head)], ["Error output", verdict.stderr_head && el("pre", {}, verdict.stderr_head)],
    ["Analyses", verdict.analyses.join(", ")],
    ["Points", verdict.findings.filter((finding) => finding.kind === "points" && !finding.rule).map((finding) => `${decimal(finding.value)} of 1`).join("")],
    ["Scores", verdict.findings.filter((finding) => finding.kind === "score").map((finding) => `${finding.rule} ${decimal(finding.value)}`).join(", ")],
  ]);
}

function attemptFacts(data) {
  const { attempt } = data;
  const related = (rows) => rows.map((row) => [link(`attempt/${row.place}`, row.author || "attempt"), " ", outcome(row.status), " "]).flat();
  return facts([
    ["Author", attempt.author], ["Language", attempt.language], ["Written", attempt.created], ["Tokens", decimal(attempt.tokens)],
    ["Mean entropy", attempt.entropy === null ? "" : `${decimal(attempt.entropy)} nats`],
    ["Log-probability", attempt.behavior_logp === null ? "" : `${decimal(attempt.behavior_logp)} nats`],
    ["Truncated", attempt.truncated ? "yes" : ""], ["Stored", attempt.count > 1 ? `${attempt.count} times` : ""],
    ["Repairs", data.parent.length ? el("span", {}, related(data.parent)) : ""],
    ["Repaired by", data.repairs.length ? el("span", {}, related(data.repairs)) : ""], ["Further fields", attempt.extra], ["Id", attempt.attempt_id],
  ]);
}

function tests(verdict, task, place, info) {
  const given = task ? task.tests : [];
  const known = verdict.outcomes.length || given.length;
  if (!known) return null;
  const points = Object.fromEntries(verdict.findings.filter((finding) => finding.kind === "points").map((finding) => [finding.rule, `, ${decimal(finding.value)} of its points`]));
  const squares = verdict.outcomes.map((status, index) => el("li", { class: status === "passed" ? "passed" : status === "unscored" ? "soft" : "failed",
    title: `test ${index + 1}: ${status.replace(/_/g, " ")}${points[index + 1] || ""}` }, `${index + 1}${status === "passed" ? "✓" : status === "unscored" ? "" : "✗"}`));
  const rows = given.map((test, index) => el("tr", {}, el("td", {}, index + 1), el("td", {}, verdict.outcomes[index] ? [outcome(verdict.outcomes[index]), points[index + 1] || ""] : ""),
    el("td", {}, test.hidden ? "hidden" : "visible"), el("td", {}, el("pre", {}, test.input)), el("td", {}, el("pre", {}, test.expected))));
  const head = el("tr", {}, ["Test", "Outcome", "Shown", "Input", "Expected"].map((name) => el("th", { scope: "col" }, name)));
  const again = el("div");
  const failing = given.length && verdict.status !== "passed" && !info.fixed;
  const run = failing ? el("button", { type: "button", onclick: () => {
    show(again, el("p", { role: "status" }, "Running the failed tests in the sandbox ..."));
    get("outputs", { place }).then(({ rows: found }) => show(again, outputTable(found))).catch((error) => show(again, el("p", { class: "error", role: "alert" }, error.message)));
  } }, "Run the failed tests again: got and expected") : null;
  return el("section", {}, el("h2", {}, "Tests"), run, again, el("ul", { class: "tests", "aria-label": "Outcome of each test" }, squares),
    given.length ? el("details", {}, el("summary", {}, plural(given.length, "test")), el("div", { class: "wide" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)))) : null);
}

function outputTable(rows) {
  const names = ["Test", "Outcome", "Input", "Got", "Expected"];
  return el("div", { class: "wide" }, el("table", { id: "outputs" }, el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, el("td", {}, row.test), el("td", {}, outcome(row.status)), ["input", "got", "expected"].map((name) => el("td", {}, el("pre", {}, row[name]))))))));
}

function heatBar(box, data, place) {
  const { attempt } = data;
  const verdict = data.verdicts[0];
  const said = el("span", { class: "soft", role: "status" });
  const bar = el("div", { class: "heat", role: "group", "aria-label": "Heat map over the code" }, el("span", {}, "Colour tokens by"));
  let scores = null;
  const choose = async (key, kind, button) => {
    bar.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
    said.textContent = "";
    if (key && !scores) {
      said.textContent = "Computing ...";
      scores = await get("tokens", { place });
    }
    const values = key ? scores[key] : null;
    const spans = values ? scores.spans.map(([start, end], index) => [start, end, values[index]]) : [];
    show(box, codeView(attempt.code, verdict ? verdict.findings : [], { spans, ran: verdict ? verdict.executed_lines : null, kind, syntax: key ? [] : attempt.syntax }));
    if (key) said.textContent = describe(key, scores, values);
  };
  for (const [key, kind] of [["", "nothing"], ...HEATS]) {
    const button = el("button", { type: "button", "aria-pressed": String(!key) }, kind);
    button.onclick = () => choose(key, kind, button).catch((error) => { said.textContent = error.message; });
    bar.append(button);
  }
  bar.append(said);
  return bar;
}

function describe(key, scores, values) {
  if (!values) return key === "logps" ? "No log-probabilities are stored for this attempt; `upsolve view RUN --logps` computes them." : scores.note ?? "";
  const range = `${decimal(Math.min(...values))} to ${decimal(Math.max(...values))}`;
  if (key === "logps") return `${range} nats, under ${scores.logps_of}; darker is less likely`;
  const whole = key === "rewards" ? `reward of the attempt ${decimal(scores.reward)}` : `advantage of the attempt ${decimal(scores.advantage)}`;
  return `${range} per token; ${whole}. Green is positive, orange negative.${key === "advantages" && scores.note ? ` Advantages ${scores.note}.` : ""}`;
}

export async function compareView(main, left, right) {
  const [one, two] = await Promise.all([get("attempt", { place: left }), get("attempt", { place: right })]);
  const [a, b] = [one.attempt.code.split("\n"), two.attempt.code.split("\n")];
  const pairs = diffLines(a, b);
  const words = diffWords(a, b, pairs);
  const side = (lines, at, kind, number) => el("div", { class: at === null ? "row" : `row ${kind}` }, el("span", { class: "no" }, at === null ? "" : at + 1),
    el("code", {}, at === null ? "" : (words[number].get(at) ?? [[lines[at], false]]).map(([text, differs]) => (differs ? el(number ? "ins" : "del", {}, text) : text))));
  const heads = [one, two].map((data) => el("div", {}, link(`attempt/${data.place}`, data.attempt.task_id), " ", el("span", { class: "soft" }, data.attempt.author), " ",
    data.verdicts[0] ? outcome(data.verdicts[0].status) : null));
  const columns = [[a, 0, "removed"], [b, 1, "added"]].map(([lines, number, kind]) => el("div", { class: "code plain", tabindex: 0, role: "group", "aria-label": number ? "Second program" : "First program" },
    pairs.map((pair) => side(lines, pair[number], pair[1 - number] === null ? kind : "", number))));
  const changed = pairs.filter((pair) => pair.includes(null)).length;
  const reasons = [one, two].map((data) => el("div", {}, data.verdicts[0]?.reason ? build(data.verdicts[0].reason) : null));
  show(main, el("h2", {}, "Two attempts"), el("p", { class: "soft" }, changed ? plural(changed, "line") + " in one of them only" : "The programs are equal."),
    el("div", { class: "pair" }, heads, reasons, columns), el("button", { type: "button", onclick: () => { marked.place = null; location.hash = `#/${prefix()}attempt/${right}`; } }, "Forget the mark"));
}

export async function taskView(main, id, info, query, go) {
  const task = await get("task", { id }).catch(() => null);
  const body = el("tbody");
  const said = el("p", { class: "soft", role: "status" });
  const names = [["", "Attempt"], ["outcome", "Outcome"], ["tests", "Tests"], ["author", "Author"], ["", "Code and error"], ...(info.scores ? ["Reward", "Advantage", "Parts"].map((name) => ["", name]) : [])];
  const heads = names.map(([key, name]) => headCell(key, name, query, go, `task/${encodeURIComponent(id)}`));
  const table = el("table", {}, el("thead", {}, el("tr", {}, heads)), body);
  const more = el("button", { type: "button", hidden: true }, "More");
  show(main, el("h2", {}, id), task ? (task.prompt.trim() ? el("pre", {}, task.prompt) : null) : el("p", {}, "The archive has attempts at this task, but not the task itself."),
    task ? facts([["Entry point", task.entry_point], ["Language", task.language], ["Difficulty", task.difficulty], ["Tests", decimal(task.tests.length)], ["Outputs compared by", task.compare], ["Further fields", task.extra]]) : null,
    task && task.reference ? el("details", {}, el("summary", {}, "Reference"), codeView(task.reference, [])) : null,
    info.model && task ? el("p", {}, link(`ask?id=${encodeURIComponent(id)}`, "Ask the model")) : null,
    el("h2", {}, "Attempts"), said, el("div", { class: "wide" }, table), more);
  const cells = new Map();
  const load = async (after) => {
    const page = await get("attempts", { task: id, after, sort: query.sort ?? "" });
    const from = body.rows.length;
    for (const row of page.rows) {
      const own = info.scores ? [el("td"), el("td"), el("td")] : [];
      cells.set(row.place, own);
      body.append(el("tr", {}, el("td", {}, link(`attempt/${row.place}`, `attempt ${body.rows.length + 1}`)), el("td", {}, outcome(row.status)),
        el("td", { class: "number" }, row.total ? `${row.passed}/${row.total}` : ""), el("td", {}, row.author), el("td", { class: "preview" }), own));
    }
    if (info.ready && page.rows.length) preview(page.rows, [...body.rows].slice(from), 4).then(() => hideEmpty(table)).catch(() => {});
    more.hidden = page.next === null;
    more.onclick = () => load(page.next).then(fill);
    table.loadMore = () => page.next === null || load(page.next);
    return page.next;
  };
  let group = null;
  const fill = () => {
    const scored = new Map((group ? group.rows : []).map((row) => [row.place, row]));
    const drawn = new Map();
    for (const each of group ? group.drawn : []) for (const row of each.attempts) drawn.set(row.place, [...(drawn.get(row.place) ?? []), { ...row, round: each.round }]);
    for (const [place, own] of cells) {
      const row = scored.get(place);
      if (!row || !own.length) continue;
      own[0].textContent = decimal(row.reward);
      own[1].textContent = drawn.has(place) ? [...new Set(drawn.get(place).map((each) => `round ${each.round}: ${decimal(each.advantage)}`))].join("; ") : decimal(row.advantage);
      own[2].textContent = row.parts.map(([name, value, weight]) => `${name} ${decimal(value)} × ${decimal(weight)}`).join(", ");
    }
  };
  await load(-1).then((next) => keepRow(table, load, next));
  table.hidden = !body.rows.length;
  if (table.hidden) said.textContent = "No attempt at this task is stored.";
  if (!info.scores || table.hidden) return hideEmpty(table);
  group = await get("group", { id });
  const left = Object.entries(group.left_out ?? {}).map(([reason, count]) => `${count} ${reason}`).join(", ");
  said.textContent = `Advantages of kind ${group.kind}, ${group.note}.${left ? ` Without a reward: ${left}.` : ""}`;
  fill();
  hideEmpty(table);
  if (group.drawn.length) main.append(drawnGroups(group.drawn, id));
  else if (group.rows.length) said.append(" ", link(`group/${encodeURIComponent(id)}`, "side by side"));
}

function drawnGroups(drawn, id) {
  const row = (each) => el("tr", {}, el("td", {}, each.round), el("td", {}, link(`group/${encodeURIComponent(id)}/${each.round}/${each.number}`, each.number, { title: "side by side" })),
    el("td", {}, each.attempts.map((one) => [link(`attempt/${one.place}`, decimal(one.reward)), one.advantage === null ? "" : ` (${one.advantage > 0 ? "+" : ""}${decimal(one.advantage)})`, " "]).flat(),
      each.missing ? el("span", { class: "soft" }, `${plural(each.missing, "attempt")} not in this archive`) : null));
  return el("section", {}, el("h2", {}, "Groups as trained on"), el("p", { class: "soft" }, "Each attempt: its reward and, in brackets, its advantage in the group."),
    el("div", { class: "wide" }, el("table", { id: "drawn" }, el("thead", {}, el("tr", {}, ["Round", "Group", "Attempts"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, drawn.map(row)))));
}
