// The text of an answer that is being written: finished blocks and the last one. Pure.

/**
 * Split the beginning of a Markdown text into what will not change and its open end.
 * A block ends with an empty line, but not inside a fence of code.
 * @returns {{finished: string, rest: string}}
 */
export function splitFinished(text) {
  let fence = null;
  let end = 0;
  let place = 0;
  for (const line of text.split("\n")) {
    const next = place + line.length + 1;
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && !fence) fence = mark;
    else if (mark && mark[0] === fence[0] && mark.length >= fence.length && line.trim() === mark) fence = null;
    // The last line has no end yet, so it may still grow.
    if (!fence && line.trim() === "" && next <= text.length) end = next;
    place = next;
  }
  return { finished: text.slice(0, end), rest: text.slice(end) };
}

/**
 * The questions that were asked in place of one another, oldest first: where a chat branches.
 * @param {{messages: object[], branches: object[]}} chat
 * @returns {object[]} at least the message itself
 */
export function listSiblings(chat, message) {
  return [...chat.messages, ...chat.branches]
    .filter((one) => one.role === "user" && one.previous_id === message.previous_id)
    .sort((a, b) => Date.parse(a.created_at) - Date.parse(b.created_at) || a.id.localeCompare(b.id));
}
