// Tables whose columns sort by a click on their heads; columns without any value are left out.
import { el, show } from "./dom.js";

const MOST_ROWS = 500;

// columns: [{ name, cell: row => text or element, value: row => what it sorts by (without: the cell), right, less, kind: class }]
export function sortable(columns, rows, { empty = "No rows." } = {}) {
  const known = columns.filter(({ cell }) => rows.some((row) => hasValue(cell(row))));
  const body = el("tbody");
  const more = el("button", { type: "button" }, "More");
  let [order, by, down, count] = [[...rows], null, false, MOST_ROWS];
  const kind = (column) => [column.right ? "number" : "", column.less ? "less" : "", column.kind ?? ""].join(" ").trim() || null;
  const draw = () => {
    show(body, order.slice(0, count).map((row) => el("tr", {}, known.map((column) => el("td", { class: kind(column) }, column.cell(row))))));
    if (!rows.length) body.append(el("tr", {}, el("td", { colspan: Math.max(1, known.length) }, empty)));
    more.hidden = order.length <= count;
  };
  const heads = known.map((column) => {
    if (!column.name) return el("td");
    const value = column.value ?? column.cell;
    const head = el("th", { scope: "col", class: kind(column) }, el("button", { type: "button", class: "sort", onclick: () => {
      [by, down] = [column, by === column ? !down : Boolean(column.right)];
      order.sort((a, b) => compareValues(value(a), value(b)) * (down ? -1 : 1));
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      draw();
    } }, column.name));
    return head;
  });
  more.onclick = () => { count += MOST_ROWS; draw(); };
  draw();
  const table = el("table", {}, el("thead", {}, el("tr", {}, heads)), body);
  table.loadMore = () => more.hidden || more.onclick();
  table.total = rows.length;
  return el("div", {}, el("div", { class: "wide" }, table), more);
}

function hasValue(cell) {
  return cell instanceof Node || (cell !== null && cell !== undefined && String(cell) !== "");
}

function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [left, right] = [a, b].map((each) => (each instanceof Node ? each.textContent : String(each ?? "")));
  return left.localeCompare(right, "en", { numeric: true });
}
