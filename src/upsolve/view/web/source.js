// Where the data come from: the server that sent this page.
import { prefix } from "./dom.js";

export async function get(name, parameters = {}) {
  const query = new URLSearchParams(Object.entries({ of: prefix().slice(0, -1), ...parameters }).filter(([, value]) => value !== "" && value !== undefined));
  const answer = await fetch(`api/${name}?${query}`, { credentials: "same-origin" });
  if (answer.status === 401) throw new Error("This address has no token: open the one that `upsolve view` printed.");
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.detail || answer.statusText);
  return data;
}
