// Curves of training, live while the run goes on.
import { el, show, svg, decimal, plural } from "./dom.js";
import { get } from "./source.js";
import { rewardBins } from "./changes.js";

const EVERY_MS = 2000;

export async function curvesView(main, info, alive) {
  const rows = [];
  const said = el("p", { class: "soft", role: "status" });
  const box = el("div", { class: "curves" });
  show(main, el("h2", {}, "Training"), said, box, await rewardBins());
  let next = 0;
  const poll = async () => {
    const page = await get("metrics", { after: next });
    if (page.next < next) rows.length = 0;
    rows.push(...page.rows);
    if (page.rows.length || !box.firstChild) draw(box, rows, info.curves);
    next = page.next;
    const going = info.fixed ? "the run was not finished when this page was written" : "looking for new steps every 2 seconds";
    said.textContent = rows.length ? `${plural(rows[rows.length - 1].step, "step")}; ${page.finished ? "the run is finished" : going}` : "No step has been logged yet.";
    if (!page.finished && !info.fixed) setTimeout(() => alive() && poll().catch((error) => { said.textContent = error.message; }), EVERY_MS);
  };
  await poll();
}

function draw(box, rows, labels) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => !["step", "round"].includes(name));
  const order = Object.keys(labels);
  const rank = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  show(box, names.map((name) => curve(labels[name] ?? name.replaceAll("_", " "), rows.filter((row) => Number.isFinite(row[name])).map((row) => [row.step, row[name]]))).filter(Boolean));
}

function curve(name, points) {
  if (!points.length) return null;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const low = ys.reduce((a, b) => Math.min(a, b)), high = ys.reduce((a, b) => Math.max(a, b));
  const first = xs[0], width = Math.max(1e-9, xs[xs.length - 1] - first), height = high - low || 1;
  const path = points.map(([x, y]) => `${(((x - first) / width) * 300).toFixed(1)},${(100 - ((y - low) / height) * 96 - 2).toFixed(1)}`).join(" ");
  const text = `${decimal(ys[0], 4)} to ${decimal(ys[ys.length - 1], 4)}`;
  if (low === high) return el("figure", { class: "flat" }, el("figcaption", {}, el("b", {}, name), el("span", { class: "soft" }, ` ${decimal(low, 4)} ${points.length > 1 ? "throughout" : `at step ${first}`}`)));
  const picture = svg("svg", { viewBox: "0 0 300 100", preserveAspectRatio: "none", role: "img",
    "aria-label": `${name}: ${text}, steps ${first} to ${xs[xs.length - 1]}` },
    svg("line", { class: "grid", x1: 0, x2: 300, y1: 98, y2: 98 }), svg("line", { class: "grid", x1: 0, x2: 300, y1: 2, y2: 2 }), svg("polyline", { class: "curve", points: path }));
  const values = el("div", { class: "values" }, el("span", {}, decimal(high, 4)), el("span", {}, decimal(low, 4)));
  const axis = el("div", { class: "steps" }, el("span", {}, `step ${first}`), el("span", {}, xs[xs.length - 1]));
  return el("figure", {}, el("figcaption", {}, el("b", {}, name), el("span", { class: "soft" }, ` ${text}`)), el("div", { class: "plot" }, values, picture), axis);
}
