// Where the data come from: the server that sent this page.
import { prefix } from "./dom.js";

export async function get(name, parameters = {}) {
  const query = new URLSearchParams(Object.entries({ of: prefix().slice(0, -1), ...parameters }).filter(([, value]) => value !== "" && value !== undefined));
  return data(`api/${name}?${query}`);
}

export async function post(name, question) {
  return data(`api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question) });
}

async function data(address, options = {}) {
  const answer = await fetch(address, { credentials: "same-origin", ...options }).catch(() => {
    throw new Error("The server does not answer: start `upsolve view` again, and open the address that it prints.");
  });
  if (answer.status === 401) throw new Error("This address has no token: open the one that `upsolve view` printed.");
  const text = await answer.text();
  if (answer.headers.get("content-type") !== "application/json") throw new Error(text || answer.statusText);
  const found = JSON.parse(text);
  if (!answer.ok) throw new Error(found.detail || answer.statusText);
  return found;
}
