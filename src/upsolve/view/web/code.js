// Code with line numbers, findings beside their lines, and a heat map of its tokens. Positions count code points, as in Python.
import { el, decimal } from "./dom.js";

const MOST_LINES = 3000;
const MEASURES = ["complexity"]; // findings about whole functions: noted, not marked
const FILE_END = ["W292", "W391"]; // Ruff on how a file ends: completions are stripped, and no reward counts these

// spans: [start, end, value] of tokens in code points; scale: the value of full colour.
export function codeView(code, recorded, { spans = [], ran = null, kind = "", syntax = [] } = {}) {
  const lines = code.split("\n");
  const starts = [0];
  for (const line of lines) starts.push(starts[starts.length - 1] + Array.from(line).length + 1);
  const byLine = tokensByLine(spans, starts, lines.length);
  const colours = tokensByLine(syntaxSpans(syntax), starts, lines.length);
  const scale = Math.max(1e-9, ...spans.map(([, , value]) => Math.abs(value ?? 0)));
  const findings = recorded.filter((finding) => !["score", "points"].includes(finding.kind) && !FILE_END.includes(finding.rule));
  const pointed = findings.filter((finding) => !MEASURES.includes(finding.kind));
  const executed = ran && new Set(ran);
  const rows = lines.slice(0, MOST_LINES).map((line, index) => {
    const here = pointed.filter((finding) => finding.line <= index + 1 && index + 1 <= (finding.end_line ?? finding.line));
    const first = findings.filter((finding) => finding.line === index + 1);
    const pieces = paint(Array.from(line), index + 1, here, byLine[index], starts[index], { scale, kind, colours: colours[index] });
    const idle = executed && line.trim() && !executed.has(index + 1);
    const number = el("span", { class: idle ? "no not-run" : "no", title: idle ? "not executed" : null }, index + 1);
    return el("div", { class: here.length ? "row noted" : "row" }, number, el("code", {}, pieces), el("div", { class: "notes" }, first.map(note)));
  });
  if (lines.length > MOST_LINES) rows.push(el("p", { class: "soft" }, `${lines.length - MOST_LINES} more lines are not shown.`));
  return el("div", { class: "code", tabindex: 0, role: "group", "aria-label": "Code" }, rows);
}

function note(finding) {
  const value = finding.value === null || finding.value === undefined ? "" : ` (${decimal(finding.value)})`;
  const lines = finding.end_line && finding.end_line > finding.line ? ` to line ${finding.end_line}` : "";
  return el("div", {}, el("b", {}, `${finding.kind}: ${finding.rule}`), lines, ` ${finding.message}${value}`);
}

// start (after the end before it), length, kind, ... as upsolve.view.syntax writes them
function syntaxSpans(flat) {
  const spans = [];
  let end = 0;
  for (let at = 0; at < flat.length; at += 3) {
    const start = end + flat[at];
    end = start + flat[at + 1];
    spans.push([start, end, flat[at + 2]]);
  }
  return spans;
}

function tokensByLine(spans, starts, count) {
  const found = Array.from({ length: count }, () => []);
  let line = 0;
  for (const span of spans) {
    if (span[1] <= 0) continue;
    while (line + 1 < count && starts[line + 1] <= span[0]) line += 1;
    for (let at = line; at < count && starts[at] < span[1]; at += 1) found[at].push(span);
  }
  return found;
}

function paint(points, line, findings, tokens, start, { scale, kind, colours }) {
  const marks = findings.map((finding) => [
    finding.line === line ? finding.column - 1 : 0,
    (finding.end_line ?? finding.line) === line && finding.end_column ? finding.end_column - 1 : points.length,
  ]);
  const cuts = new Set([0, points.length]);
  for (const [from, to] of marks) cuts.add(clamp(from, points.length)).add(clamp(to, points.length));
  for (const [from, to] of colours) cuts.add(clamp(from - start, points.length)).add(clamp(to - start, points.length));
  for (const [from, to] of tokens) cuts.add(clamp(from - start, points.length)).add(clamp(to - start, points.length));
  const sorted = [...cuts].sort((a, b) => a - b);
  return sorted.slice(0, -1).map((from, index) => {
    const to = sorted[index + 1];
    const under = marks.some(([a, b]) => a <= from && to <= b);
    const token = tokens.find(([a, b]) => a - start <= from && to <= b - start);
    const syntax = colours.find(([a, b]) => a - start <= from && to <= b - start);
    const piece = el("span", { class: `${under ? "under " : ""}${token ? "token " : ""}${syntax ? `syntax${syntax[2]}` : ""}`.trim() || null }, points.slice(from, to).join(""));
    if (token) colour(piece, token[2], scale, kind);
    return piece;
  });
}

function colour(piece, value, scale, kind) {
  if (value === null || value === undefined) return;
  piece.title = `${kind} ${decimal(value)}`;
  const share = Math.min(1, Math.abs(value) / scale) * 0.75;
  const name = kind === "log-probability" ? "--cool" : value < 0 ? "--minus" : "--plus";
  if (share > 0) piece.style.backgroundColor = `rgba(var(${name}), ${share.toFixed(3)})`;
}

function clamp(value, most) {
  return Math.max(0, Math.min(most, value));
}
