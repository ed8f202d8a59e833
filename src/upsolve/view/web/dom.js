// Elements from untrusted texts: a text is only ever a text node, so nothing in it is interpreted.

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(asNode));
  return node;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

export function show(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map(asNode));
}

export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

// Part of an address before its path: "samples/" where samples of evaluations are shown.
export function prefix() {
  return location.hash.startsWith("#/samples/") ? "samples/" : "";
}

// An element of the server (upsolve.report.blocks): [name, attributes, ...children]; a text is a text node.
const DRAWN = ["svg", "line", "polyline", "rect"];

export function build(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const [name, attributes, ...children] = node;
  const safe = Object.fromEntries(Object.entries(attributes).filter(([key]) => !key.startsWith("on")));
  return (DRAWN.includes(name) ? svg : el)(name, safe, ...children.map(build));
}

export function link(path, text, attributes = {}) {
  return el("a", { href: "#/" + prefix() + path, ...attributes }, text);
}

export function outcome(status) {
  const good = status === "passed";
  const kind = good ? "passed" : ["unscored", "unjudged", ""].includes(status) ? "soft" : "failed";
  return el("span", { class: kind }, status === "" ? "..." : (good ? "✓ " : "") + status.replace(/_/g, " "));
}

export function decimal(value, digits = 3) {
  if (value === null || value === undefined) return "";
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(digits)).toString();
}

export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, known.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}
