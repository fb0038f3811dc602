// Shows the OpenAPI document of this server. Everything is set as text, never as markup.
"use strict";

const element = (tag, text, ...children) => {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
};

const nameOf = (ref) => ref.split("/").pop();

// What a schema says, short: a name, a kind, a choice.
const sketch = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map(sketch).join(" | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.type === "array") return `${sketch(schema.items)}[]`;
  return schema.format ? `${schema.type} (${schema.format})` : String(schema.type ?? "any");
};

const table = (headings, rows) => {
  const head = element("tr", "", ...headings.map((heading) => element("th", heading)));
  const lines = rows.map((row) => element("tr", "", ...row.map((cell) => element("td", cell))));
  const whole = element("table", "", element("thead", "", head), element("tbody", "", ...lines));
  const frame = element("div", "", whole);
  frame.className = "wide";
  return frame;
};

const describeFields = (document_, schema) => {
  const target = schema.$ref ? document_.components.schemas[nameOf(schema.$ref)] : schema;
  const required = new Set(target.required ?? []);
  const rows = Object.entries(target.properties ?? {}).map(([name, field]) => [
    required.has(name) ? `${name} (needed)` : name, sketch(field), field.description ?? "",
  ]);
  return rows.length ? table(["field", "kind", ""], rows) : element("p", sketch(schema));
};

const describeBodies = (document_, title, content) =>
  Object.entries(content ?? {}).flatMap(([kind, body]) => [
    element("h4", `${title}: ${kind}`),
    ...(body.schema ? [describeFields(document_, body.schema)] : []),
  ]);

const showOperation = (document_, path, method, operation) => {
  const heading = element("summary", "", element("b", method.toUpperCase()),
    element("code", path), element("span", operation.summary ?? ""));
  const parts = [element("p", operation.description ?? "")];
  if (operation.parameters?.length) {
    parts.push(element("h4", "Parameters"), table(["name", "in", "kind", ""],
      operation.parameters.map((one) => [one.name, one.in, sketch(one.schema), one.description ?? ""])));
  }
  parts.push(...describeBodies(document_, "Body", operation.requestBody?.content));
  for (const [status, answer] of Object.entries(operation.responses)) {
    if (Number(status) < 400) {
      parts.push(...describeBodies(document_, `Answer ${status}`, answer.content));
    }
  }
  parts.push(element("h4", "Problems"), table(["status", ""],
    Object.entries(operation.responses).filter(([status]) => Number(status) >= 400)
      .map(([status, answer]) => [status, answer.description])));
  const shown = element("details", "", heading, ...parts);
  shown.id = operation.operationId;
  shown.dataset.words = `${method} ${path} ${operation.operationId} ${operation.summary}`.toLowerCase();
  return shown;
};

const show = (document_) => {
  document.getElementById("title").textContent = `${document_.info.title} API ${document_.info.version}`;
  document.getElementById("summary").textContent = document_.info.summary ?? "";
  const operations = Object.entries(document_.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
  for (const tag of document_.tags) {
    const link = element("a", tag.name);
    link.href = `#tag-${tag.name}`;
    document.getElementById("tags").append(link);
    const section = element("section", "", element("h2", tag.name), element("p", tag.description));
    section.id = `tag-${tag.name}`;
    section.append(...operations.filter(({ operation }) => operation.tags?.includes(tag.name))
      .map(({ path, method, operation }) => showOperation(document_, path, method, operation)));
    document.getElementById("operations").append(section);
  }
};

const say = (text) => { document.getElementById("said").textContent = text; };

document.getElementById("search").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const shown of document.querySelectorAll("details[data-words]")) {
    shown.hidden = !words.every((word) => shown.dataset.words.includes(word));
  }
  for (const section of document.querySelectorAll("#operations section")) {
    section.hidden = !section.querySelector("details:not([hidden])");
  }
  say(document.querySelector("#operations section:not([hidden])") ? "" : "No operation matches.");
});

// An address may name an operation, which is there only now.
const goToNamed = () => {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.tagName === "DETAILS") named.open = true;
  named.scrollIntoView();
};
window.addEventListener("hashchange", goToNamed);

fetch("/api/v1/openapi.json").then((answer) => {
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}).then(show).then(goToNamed).catch((error) => {
  say(`The description of the API did not come: ${error.message}. Load the page again.`);
});
