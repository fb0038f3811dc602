// Assertions about views/chat/blocks.js; `check(name, found, wanted)` comes from the test.
export default async (base, check) => {
  const { splitFinished, listSiblings } = await import(`${base}/js/views/chat/blocks.js`);
  const split = (text) => Object.values(splitFinished(text));
  check("the last block is open", split("One.\n\nTwo"), ["One.\n\n", "Two"]);
  check("a line that may grow is open", split("One.\n"), ["", "One.\n"]);
  check("an empty line ends a block", split("One.\n\n"), ["One.\n\n", ""]);
  check("a fence is one block", split("```\na\n\nb\n"), ["", "```\na\n\nb\n"]);
  check("a closed fence ends", split("```js\na\n\nb\n```\n\nrest"), ["```js\na\n\nb\n```\n\n", "rest"]);
  check("a shorter mark does not close a fence", split("````\n```\n\nb"), ["", "````\n```\n\nb"]);
  check("another mark does not close a fence", split("~~~\n```\n\nb"), ["", "~~~\n```\n\nb"]);
  check("nothing is nothing", split(""), ["", ""]);
  const said = (id, previous, at, role = "user") => ({ id, previous_id: previous, role, created_at: `2026-01-01T00:00:0${at}Z` });
  const chat = { messages: [said("b", null, 3), said("x", "b", 4, "assistant")], branches: [said("a", null, 1), said("y", "a", 2, "assistant")] };
  check("versions of a question, oldest first", listSiblings(chat, chat.messages[0]).map((one) => one.id), ["a", "b"]);
  check("an only question", listSiblings({ messages: [chat.messages[0]], branches: [] }, chat.messages[0]).length, 1);
};
