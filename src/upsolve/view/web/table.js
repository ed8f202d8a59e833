// Tables whose columns sort by a click on their heads; columns without any value are left out. The address keeps the order.
import { el, show } from "./dom.js";

const MOST_ROWS = 500;

// columns: [{ name, cell: row => text or element, value: row => what it sorts by (without: the cell), right, less, kind: class }]
// key: the part of the address that names the column, with a minus for falling values
export function sortable(columns, rows, { empty = "No rows.", key = "sort" } = {}) {
  const known = columns.filter(({ cell }) => rows.some((row) => hasValue(cell(row))));
  const body = el("tbody");
  const more = el("button", { type: "button" }, "More");
  let count = MOST_ROWS;
  const kind = (column) => [column.right ? "number" : "", column.less ? "less" : "", column.kind ?? ""].join(" ").trim() || null;
  const draw = () => {
    const sort = queryNow()[key];
    const order = ordered(columns, rows, sort);
    show(body, order.slice(0, count).map((row) => el("tr", {}, known.map((column) => el("td", { class: kind(column) }, column.cell(row))))));
    if (!rows.length) body.append(el("tr", {}, el("td", { colspan: Math.max(1, known.length) }, empty)));
    more.hidden = order.length <= count;
    heads.forEach((head, index) => (columnOf(sort) && known[index].name === columnOf(sort) ? head.setAttribute("aria-sort", sort.startsWith("-") ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
  };
  const sortBy = ({ name, right }) => {
    const sort = queryNow()[key];
    const down = columnOf(sort) === name ? !sort.startsWith("-") : Boolean(right);
    const path = location.hash.split("?")[0] || "#/";
    history.replaceState(null, "", `${path}?${new URLSearchParams({ ...queryNow(), [key]: (down ? "-" : "") + name })}`);
    draw();
  };
  const heads = known.map((column) => (column.name ? el("th", { scope: "col", class: kind(column) }, el("button", { type: "button", class: "sort", onclick: () => sortBy(column) }, column.name)) : el("td")));
  more.onclick = () => { count += MOST_ROWS; draw(); };
  draw();
  const table = el("table", {}, el("thead", {}, el("tr", {}, heads)), body);
  table.loadMore = () => more.hidden || more.onclick(); // true once all rows are there
  table.total = rows.length;
  return el("div", {}, el("div", { class: "wide" }, table), more);
}

// What stands behind "?" in the address now.
export function queryNow() {
  return Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
}

// The rows in the order that an address names; as they came if it names no column.
export function ordered(columns, rows, sort) {
  const column = columns.find(({ name }) => name && name === columnOf(sort));
  if (!column) return [...rows];
  const value = column.value ?? column.cell;
  return [...rows].sort((a, b) => compareValues(value(a), value(b)) * (sort.startsWith("-") ? -1 : 1));
}

function columnOf(sort) {
  return (sort ?? "").replace(/^-/, "");
}

function hasValue(cell) {
  return cell instanceof Node || (cell !== null && cell !== undefined && String(cell) !== "");
}

function compareValues(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [left, right] = [a, b].map((each) => (each instanceof Node ? each.textContent : String(each ?? "")));
  return left.localeCompare(right, "en", { numeric: true });
}
