// A question to the model: on a task of the archive or on a typed prompt; its candidates side by side.
import { decimal, el, facts, link, outcome, show } from "./dom.js";
import { codeView } from "./code.js";
import { get, post } from "./source.js";

const PAUSE = 700; // milliseconds between two looks at the model, or at an answer
let lastAnswer = null; // shown again when the reader comes back

export async function askView(main, query, isShown) {
  const status = el("p", { role: "status", class: "soft" });
  const answer = el("div", { class: "answer" });
  const model = await get("model", { of: "" });
  const tasks = el("select", { name: "id" });
  const search = el("input", { type: "search", name: "search", placeholder: "part of an id or prompt" });
  const field = (name, attributes) => el("input", { name, required: true, ...attributes });
  const samples = field("samples", { type: "number", min: 1, max: model.most, value: model.samples });
  const temperature = field("temperature", { type: "number", min: 0, max: 2, step: 0.1, value: model.temperature });
  const prompt = el("textarea", { name: "prompt", rows: 5 });
  const language = field("language", { value: "python" });
  const schema = el("textarea", { name: "schema", rows: 3, placeholder: "CREATE TABLE ... (for a query)" });
  const button = el("button", { type: "submit", disabled: true }, "Sample");
  const typed = el("fieldset", {}, el("legend", {}, "Prompt"), labelled("Question", prompt), labelled("Language", language), labelled("Schema", schema));
  const choose = () => { typed.hidden = tasks.value !== ""; };
  const fill = async () => {
    const found = await get("tasks", { of: "", text: search.value });
    show(tasks, el("option", { value: "" }, "a prompt of your own"), found.rows.map((row) => el("option", { value: row.task_id }, row.task_id)));
    tasks.value = found.rows.some((row) => row.task_id === query.id) ? query.id : (search.value && found.rows[0] ? found.rows[0].task_id : "");
    choose();
  };
  const fail = (error) => { show(status, el("span", { class: "error", role: "alert" }, error.message)); };
  const ask = async (event) => {
    event.preventDefault();
    button.disabled = true;
    show(answer);
    show(status, "Sampling ...");
    try {
      const own = { prompt: prompt.value, language: language.value, schema: schema.value };
      const { number } = await post("ask", { samples: samples.value, temperature: temperature.value, ...(tasks.value ? { id: tasks.value } : own) });
      const found = await answered(number, isShown);
      if (found) {
        lastAnswer = found;
        show(status);
        show(answer, answerView(found));
      }
    } catch (error) {
      fail(error);
    }
    button.disabled = false;
  };
  search.addEventListener("change", () => fill().catch(fail));
  tasks.addEventListener("change", choose);
  const form = el("form", { class: "filters ask", onsubmit: ask }, labelled("Search", search), labelled("Task of the archive", tasks), labelled("Samples", samples), labelled("Temperature", temperature), button, typed);
  show(main, el("h2", {}, "Ask the model"), el("p", { class: "soft" }, model.name), form, status, answer);
  const fillLater = async () => {
    while (isShown() && tasks.length < 2 && !(await get("info", { of: "" })).ready) {
      await pause();
      await fill();
    }
  };
  await fill();
  fillLater().catch(fail);
  if (lastAnswer) show(answer, answerView(lastAnswer));
  waitFor(status, button, model, isShown).catch(fail);
}

function labelled(text, node) {
  return el("label", {}, text, node);
}

async function waitFor(status, button, first, isShown) {
  let model = first;
  while (model.state === "loading") {
    show(status, `The model ${model.name} is loading ...`);
    await pause();
    if (!status.isConnected && !isShown()) return;
    model = await get("model", { of: "" });
  }
  if (model.state === "failed") throw new Error(model.error);
  show(status);
  button.disabled = false;
}

async function answered(number, isShown) {
  for (;;) {
    const found = await get("asked", { of: "", number });
    if (found.state === "failed") throw new Error(found.error);
    if (found.state === "done") return found.answer;
    await pause();
    if (!isShown()) return null;
  }
}

function pause() {
  return new Promise((resolve) => { setTimeout(resolve, PAUSE); });
}

function answerView(found) {
  const title = found.task.startsWith("asked/") ? "Answer to a prompt" : link(`task/${encodeURIComponent(found.task)}`, found.task);
  return [el("h2", {}, title), el("details", {}, el("summary", {}, "Prompt"), el("pre", { class: "prompt" }, found.prompt)),
    found.note ? el("p", { class: "note" }, found.note) : null, el("p", { class: "why" }, found.why),
    el("p", { class: "soft" }, Object.entries(found.kinds).map(([kind, help]) => `${kind}: ${help}`).join("; ")),
    el("div", { class: "group" }, found.candidates.map(candidateView))];
}

function candidateView(one, index) {
  const tests = one.total === null ? "" : `${one.passed} of ${one.total} tests`;
  const evidence = Object.entries(one.evidence).filter(([kind]) => kind !== "likelihood").map(([kind, value]) => [kind, decimal(value)]);
  const outputs = one.outputs.length ? el("details", {}, el("summary", {}, "Outputs"), el("pre", {}, one.outputs.map((text) => text ?? "no output").join("\n"))) : null;
  return el("section", { class: one.chosen ? "candidate chosen" : "candidate", "aria-label": `Candidate ${index + 1}` },
    el("h3", {}, `Candidate ${index + 1}${one.greedy ? ", greedy" : ""}`, one.chosen ? [" ", el("span", { class: "tag" }, "chosen")] : null),
    el("p", { class: "outcome" }, one.status === null ? el("span", { class: "soft" }, "not judged") : [outcome(one.status), " ", el("span", { class: "soft" }, tests)]),
    one.error ? el("p", { class: "soft" }, one.error) : null,
    facts([["log-probability", decimal(one.logp)], ["per token", decimal(one.logp_per_token)], ["tokens", decimal(one.tokens)], ...evidence]),
    codeView(one.code, [], { syntax: one.syntax }), outputs,
    one.answer && one.answer !== one.code ? el("details", {}, el("summary", {}, "Whole answer"), el("pre", {}, one.answer)) : null);
}
