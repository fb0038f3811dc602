// The form of the New page as data.
export default async function run(base, check) {
  const form = await import(`${base}/js/views/new/form.js`);
  const empty = form.emptyForm(["a/x", "b/y"]);

  check("without a prompt there is nothing to quote", form.isAsked(empty, null), false);
  check("a project has its prompt already", form.isAsked(empty, "p"), true);
  check("without a seat there is nothing to quote", form.isAsked({ ...empty, prompt: "A hall.", seats: [] }, null), false);

  const filled = { ...empty, prompt: "A hall.", budget: "2.5", tokens: "400", until: "thesis", stops: true, continues: false, resources: [{ kind: "success_criteria", name: " ", text: "It stands." }, { kind: "success_criteria", name: "empty", text: " " }] };
  check("a request has what was chosen, and no empty text", form.buildRequest(filled), {
    prompt: "A hall.", name: "", domain: "General", process: "standard", models: ["a/x", "b/y"], resources: [{ kind: "success_criteria", name: "Success criteria", text: "It stands." }],
    continue_until_complete: false, is_autopilot: false, shrink: 0, until: "thesis", max_output_tokens: 400, budget: "2.5",
  });
  check("a further session names its project and neither prompt nor name", Object.keys(form.buildRequest({ ...empty, prompt: "x" }, "p")).slice(0, 2), ["project_id", "session_description"]);

  check("a form comes back as it was kept", form.restore(empty, form.remember(filled, empty)), filled);
  check("an untouched form is not kept", form.remember({ ...empty }, empty), "");
  check("what was kept by another version is left out", form.restore(empty, '{"prompt": 7, "seats": "a", "budget": "1", "new": 1}'), { ...empty, budget: "1" });
  check("what is no JSON is left out", form.restore(empty, "{"), empty);

  check("an amount that is none is said", form.findWrong({ ...empty, budget: "two" })?.field, "budget");
  check("a limit of nothing is said", form.findWrong({ ...empty, tokens: "0" })?.field, "tokens");
  check("what fits is not", form.findWrong(filled), null);

  check("a name is the first sentence", form.suggestName("# Village hall. It rains.\nMore"), "Village hall");
  check("a long name ends at a word", form.suggestName(`${"word ".repeat(30)}`).length <= 61, true);
  check("words of a script without spaces are counted", form.countWords("我们需要一个计划") > 1, true);
  check("nothing has no words", form.countWords(" \n"), 0);
  check("one is moved to another place", form.moveTo(["a", "b", "c"], 0, 2), ["b", "c", "a"]);
  check("not beyond the end", form.moveTo(["a", "b"], 0, 9), ["b", "a"]);
  check("a problem names its field", [form.findField("/body/max_output_tokens"), form.findField("/body/budget")], ["tokens", "budget"]);
  check("a roomy budget is half as much again", form.roomyBudget("1.001"), "1.51");
}
