// Marks of Markdown around the selection of a text field. Undo works, where the browser lets it.

const TABLE = "\n| A | B |\n|---|---|\n|   |   |\n";

/** Put the marks of a tool around what is selected, or begin its lines with them. */
export function wrap(field, tool) {
  const { selectionStart: start, selectionEnd: end, value } = field;
  const chosen = value.slice(start, end);
  switch (tool) {
    case "bold": return around(field, "**", chosen || "bold");
    case "italic": return around(field, "*", chosen || "italic");
    case "link": return insert(field, start, end, `[${chosen || "text"}](https://)`, start + (chosen || "text").length + 3, start + (chosen || "text").length + 11);
    case "table": return insert(field, end, end, TABLE, end + 3, end + 4);
    case "heading": return lines(field, (line) => (/^#{1,5} /.test(line) ? `#${line}` : `## ${line.replace(/^#+ */, "")}`));
    case "list": return lines(field, (line) => (line.startsWith("- ") ? line.slice(2) : `- ${line}`));
    default: return lines(field, (line, n) => (/^\d+\. /.test(line) ? line.replace(/^\d+\. /, "") : `${n + 1}. ${line}`));
  }
}

function around(field, mark, chosen) {
  const { selectionStart: start, selectionEnd: end } = field;
  insert(field, start, end, `${mark}${chosen}${mark}`, start + mark.length, start + mark.length + chosen.length);
}

function lines(field, change) {
  const { value } = field;
  const start = value.lastIndexOf("\n", field.selectionStart - 1) + 1;
  const found = value.indexOf("\n", field.selectionEnd);
  const end = found < 0 ? value.length : found;
  const text = value.slice(start, end).split("\n").map(change).join("\n");
  insert(field, start, end, text, start + text.length, start + text.length);
}

function insert(field, start, end, text, from, to) {
  field.focus();
  field.setSelectionRange(start, end);
  // The only way that leaves the browser's undo intact.
  if (!document.execCommand("insertText", false, text)) field.setRangeText(text, start, end);
  field.setSelectionRange(from, to);
}
