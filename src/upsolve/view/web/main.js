// The page: address, views, keys, theme.
import { el, show, prefix } from "./dom.js";
import { get } from "./source.js";
import { attemptList, follow, neighbours, select, selected, taskList } from "./lists.js";
import { attemptView, compareView, marked, taskView } from "./attempt.js";
import { changeView, changesView, groupView, rewardsView } from "./changes.js";
import { compareRuns, overviewView, runsView } from "./overview.js";
import { curvesView } from "./curves.js";
import { askView } from "./ask.js";

const KEYS = [["j, k or arrows", "next and previous row"], ["Enter", "open the row"], ["left, right", "previous and next page of the list"], ["/", "search"],
  ["o, a, t, g", "overview, attempts, tasks, training"], ["b", "before and after, by task"], ["s", "samples of the run's evaluations, and back"], ["c", "mark an attempt, then compare another one with it"], ["h", "next heat map"], ["m", "ask the model"], ["u or Escape", "back"], ["d", "theme"], ["?", "this help"]];
const main = document.getElementById("main");
let info = null; // about what is shown: the archive, or the samples of evaluations
let whole = null; // about the archive or run
let shown = 0;
let kept = "";
let stays = false; // whether the next page is a neighbour of this one, which is read from the same place on
let timer = 0;

function address() {
  const [path, query] = location.hash.replace(/^#\/?(samples\/)?/, "").split("?");
  return { words: path.split("/").filter(Boolean), query: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function go(path, query = {}) {
  const text = new URLSearchParams(query).toString();
  const next = `#/${["training", "overview", "changes", "ask"].includes(path) ? "" : prefix()}${path}${text ? `?${text}` : ""}`;
  if (location.hash === next) render();
  else location.hash = next;
}

async function render() {
  const { words, query } = address();
  const now = (shown += 1);
  const box = el("div");
  try {
    if (kept !== prefix()) {
      show(main, el("p", {}, "Loading ..."));
      marked.place = null;
      await refresh();
    }
    const [kind, first, second, third] = words;
    if (kind === "attempt") await attemptView(box, Number(first), info);
    else if (kind === "compare") await compareView(box, Number(first), Number(second));
    else if (kind === "task") await taskView(box, decodeURIComponent(first ?? ""), info, query, go);
    else if (kind === "changes") await changesView(box, query, go);
    else if (kind === "change") await changeView(box, decodeURIComponent(first ?? ""), query);
    else if (kind === "group") await groupView(box, decodeURIComponent(first ?? ""), second, third);
    else if (kind === "rewards") await rewardsView(box, query);
    else if (kind === "tasks") await taskList(box, query, info, go);
    else if (kind === "compare-runs") await compareRuns(box, query);
    else if (whole.runs) await runsView(box, go);
    else if (kind === "overview" || (!kind && whole.overview)) await overviewView(box, whole);
    else if (kind === "ask") await askView(box, query, () => now === shown);
    else if (kind === "training") await curvesView(box, info, () => now === shown);
    else await attemptList(box, query, info, go);
  } catch (error) {
    show(box, el("p", { class: "error", role: "alert" }, error.message));
  }
  const bar = await neighbours();
  if (now !== shown) return;
  if (bar && !box.querySelector("#next, #previous")) box.prepend(bar);
  const focused = document.activeElement.id;
  show(main, box);
  if (["next", "previous"].includes(focused)) document.getElementById(focused)?.focus({ preventScroll: true });
  drawTabs(words[0] ?? (whole.overview ? "overview" : "attempts"));
  if (!stays) window.scrollTo(0, 0);
  stays = false;
}

function drawTabs(current) {
  if (whole.runs) return show(document.getElementById("tabs"), current === "compare-runs" ? el("a", { href: "#/" }, "All runs") : null);
  const samples = whole.samples ? [["samples/attempts", "Model answers"], ["samples/tasks", "Answers by task"]] : [];
  const stored = whole.samples ? "Stored " : "";
  const tabs = [...(whole.overview ? [["overview", "Overview"]] : []), ...(whole.changes ? [["changes", "Before and after"]] : []), ...samples, ["attempts", `${stored}${stored ? "a" : "A"}ttempts`], ["tasks", `${stored}${stored ? "t" : "T"}asks`], ...(whole.run ? [["training", "Training"]] : []), ...(whole.model ? [["ask", "Ask the model"]] : [])];
  const at = prefix() + ({ attempt: "attempts", compare: "attempts", task: "tasks", group: "tasks", change: "changes", rewards: "training" }[current] ?? current);
  show(document.getElementById("tabs"), whole.home ? el("a", { href: "../../" }, "All runs") : null, tabs.map(([name, text]) => el("a", { href: `#/${name}`, "aria-current": name === at ? "page" : null }, text)));
  document.querySelector("#tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

async function start() {
  setTheme(stored("upsolve-theme") ?? "system");
  show(document.getElementById("keys"), el("h2", { id: "keys-title" }, "Keys"),
    el("table", {}, el("tbody", {}, KEYS.map(([key, text]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, text))))),
    el("form", { method: "dialog" }, el("button", {}, "Close")));
  document.getElementById("help").onclick = () => document.getElementById("keys").showModal();
  document.getElementById("theme").onclick = nextTheme;
  window.addEventListener("hashchange", render);
  document.addEventListener("keydown", onKey);
  main.addEventListener("click", onClick);
  await refresh();
  await render();
  document.documentElement.dataset.loaded = "yes";
}

async function refresh() {
  const before = kept === prefix() ? info : null;
  kept = prefix();
  const [now, all] = await Promise.all([get("info"), get("info", { of: "" })]);
  info = now;
  whole = all;
  document.title = `${whole.title} - upsolve view`;
  document.getElementById("title").textContent = whole.title;
  document.getElementById("status").textContent = info.error || (info.ready ? "" : "The archive is being indexed; filters and counts follow.");
  const listed = ["", "attempts", "tasks"].includes(address().words[0] ?? "");
  if (before && info.ready && !before.ready && listed) render();
  if (info.fixed) return;
  clearTimeout(timer);
  timer = setTimeout(() => refresh().catch(() => {}), info.ready ? 10_000 : 700);
}

const THEMES = ["system", "light", "dark"];
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";

function setTheme(name) {
  theme = THEMES.includes(name) ? name : "system";
  document.documentElement.dataset.theme = theme === "system" ? (darkSystem.matches ? "dark" : "light") : theme;
  document.getElementById("theme").textContent = `Theme: ${theme}`;
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
  try { localStorage.setItem("upsolve-theme", theme); } catch { /* a page from a file may have no storage */ }
}

function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

darkSystem.addEventListener("change", () => setTheme(theme));

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, select, textarea");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (document.getElementById("keys").open) return;
  const action = ACTIONS[event.key];
  if (action && action() !== false) event.preventDefault();
}

function step(by) {
  const table = main.querySelector("table");
  if (!table || !["", "attempts", "tasks", "task", "changes", "rewards"].includes(address().words[0] ?? "")) return false;
  select(table, (selected(table) ?? -1) + by);
  return true;
}

function openRow() {
  if (document.activeElement.closest("a, button, summary")) return false;
  const row = main.querySelector('tr[aria-selected="true"] a');
  row?.click();
  return Boolean(row);
}

function neighbour(by) {
  const link = main.querySelector(by > 0 ? "#next" : "#previous");
  const focused = document.activeElement;
  if (!link || (focused !== document.body && focused.scrollWidth > focused.clientWidth)) return false; // the keys move what is wide
  link.click();
  return true;
}

// A neighbour takes the place of its page in the history, so that "back" is the list.
function onClick(event) {
  follow(event);
  const link = event.target.closest("#next, #previous");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  stays = true;
  location.replace(link.hash);
}

function nextHeat() {
  const buttons = [...main.querySelectorAll(".heat button")];
  const at = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  buttons[(at + 1) % buttons.length]?.click();
}

function samples() {
  if (whole.samples) location.hash = prefix() ? "#/attempts" : "#/samples/attempts";
}

function back() {
  const { words } = address();
  if (["attempt", "compare", "task", "change", "group", "rewards"].includes(words[0])) history.back();
}

function search() {
  const field = main.querySelector('input[type="search"]');
  if (field) field.focus();
  else go("attempts");
}

const ACTIONS = {
  Enter: openRow, j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowLeft: () => neighbour(-1), ArrowRight: () => neighbour(1),
  "/": search, a: () => go("attempts"), t: () => go("tasks"), g: () => whole.run && go("training"), o: () => whole.overview && go("overview"), b: () => whole.changes && go("changes"), s: samples, c: () => main.querySelector("#compare")?.click(), h: nextHeat, m: () => whole.model && go("ask"),
  u: back, Escape: back, d: nextTheme, "?": () => document.getElementById("keys").showModal(),
};

start().catch((error) => show(main, el("p", { class: "error", role: "alert" }, error.message)));
