// Assertions about model.js; `check(name, found, wanted)` comes from the test.
const time = (seconds) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const ms = (seconds) => Date.UTC(2026, 0, 1) + seconds * 1000;
const job = (id, changes = {}) => ({
  id, stage: "thesis", step: "write", iteration: 1, seat: 1, status: "completed", phase: null, words: 100, charged: "0.01", errors: [],
  document_id: `d-${id}`, created_at: time(0), started_at: time(1), first_token_at: time(2), completed_at: time(12), ...changes,
});
const stage = (changes = {}) => ({
  slug: "thesis", title: "Thesis", position: 1, iteration: 1, status: "complete", planned: 2, finished: 2, running: 0, failed: 0,
  started_at: time(1), completed_at: time(12), steps: [{ key: "write", planned: 2, finished: 2 }], ...changes,
});
const board = () => ({
  session: { id: "s", project: { id: "p", name: "Hall" }, seats: [{ index: 1 }], created_at: time(0) },
  stages: [stage(), stage({ slug: "antithesis", position: 2, status: "not_begun", planned: 0, finished: 0, started_at: null, completed_at: null, steps: [] })],
  jobs: [job("a"), job("b", { completed_at: time(10) })],
  documents: [{ id: "d-a", original_id: "d-a", version: 1, created_at: time(12) }, { id: "d-b", original_id: "d-b", version: 1, created_at: time(10) }],
  feedback: [{ id: "f", created_at: time(20) }], money: { spent: "0.02" }, needs: [], plan: [],
});
const event = (type, data, session = "s") => ({ type, session_id: session, data });

export default async (base, check) => {
  const m = await import(`${base}/js/model.js`);
  const begun = m.fromBoard(board());
  check("the board is the model", [begun.jobs.size, begun.documents.size, begun.feedback.size, begun.stages.length], [2, 2, 1, 2]);

  const running = event("jobs_changed", { jobs: [job("c", { stage: "antithesis", status: "processing", completed_at: null })], stages: [stage({ slug: "antithesis", position: 2, status: "generating", planned: 4, running: 1, finished: 0 })] });
  const once = m.apply(begun, running);
  const twice = m.apply(once, running);
  check("an event told twice is told once", [[...twice.jobs.keys()], m.countCalls(twice.stages)], [["a", "b", "c"], m.countCalls(once.stages)]);
  check("a model is never changed", begun.jobs.size, 2);
  check("calls are counted", m.countCalls(once.stages), { planned: 6, finished: 2, running: 1, failed: 0 });
  check("the current stage", m.currentStage(once.stages).slug, "antithesis");
  check("what runs", [m.listRunning(once).map((one) => one.id), m.isWorking(once), m.isWorking(begun)], [["c"], true, false]);
  check("another session's event changes nothing", m.apply(begun, event("jobs_changed", { jobs: [job("z")] }, "other")) === begun, true);
  check("an unknown event changes nothing", m.apply(begun, event("weather_changed", {})) === begun, true);
  check("jobs that are gone", [...m.apply(once, event("jobs_changed", { jobs: [], gone: ["a", "nothing"] })).jobs.keys()], ["b", "c"]);

  const edited = m.apply(begun, event("document_changed", { document: { id: "d-a2", original_id: "d-a", version: 2, created_at: time(30) } }));
  check("a new version takes the place of the old", [...edited.documents.keys()].sort(), ["d-a2", "d-b"]);
  const landed = (changes) => m.apply(once, event("dialectic_contribution_received", { document: { id: "d-c", original_id: "d-c", job_id: "c", version: 1, by: null, words: 7, charged: "0.02", created_at: time(5), ...changes } })).jobs.get("c");
  check("a document ends its call", [landed({}).status, landed({}).document_id, landed({}).words, landed({}).charged], ["completed", "d-c", 7, "0.02"]);
  check("a call that was begun again is not ended by what it wrote before", [landed({ created_at: time(0) }).status, landed({ by: { user_id: "u" } }).status], ["processing", "processing"]);
  check("a contribution without document is left to others", m.apply(begun, event("dialectic_contribution_received", { contribution: {} })) === begun, true);
  check("needs and money", m.apply(begun, event("session_changed", { needs: [{ code: "funds" }], money: { spent: "1" } })).needs.length, 1);
  check("feedback that is taken back", m.apply(begun, event("feedback_changed", { feedback: null, feedback_id: "f", is_gone: true })).feedback.size, 0);
  check("a project that is deleted", m.apply(begun, { type: "project_changed", data: { project: null, project_id: "p", is_gone: true } }).isGone, true);

  const piece = (at, text, more = {}) => ({ session_id: "s", job_id: "c", attempt: 1, turn: 0, at, text, words: 1, ...more });
  const draft = (model) => model.drafts.get("c");
  let drafted = m.applyDraft(m.applyDraft(once, piece(0, "The hall")), piece(8, " is open."));
  check("pieces join", draft(drafted).text, "The hall is open.");
  check("a piece told twice joins once", m.applyDraft(drafted, piece(0, "The hall")) === drafted, true);
  check("pieces may overlap", draft(m.applyDraft(drafted, piece(8, " is open. Yes."))).text, "The hall is open. Yes.");
  const gap = draft(m.applyDraft(drafted, piece(40, "x")));
  check("after a gap the text begins at the piece", [gap.from, gap.text], [40, "x"]);
  drafted = m.applyDraft(drafted, piece(0, "Again", { attempt: 2 }));
  check("another attempt begins again, and an old one is ignored", [draft(drafted).text, m.applyDraft(drafted, piece(0, "Old text")) === drafted], ["Again", true]);
  const prepared = m.apply(once, event("jobs_changed", { jobs: [job("c", { stage: "antithesis", status: "processing", phase: "preparing", completed_at: null })] }));
  const calling = m.applyDraft(prepared, piece(0, "", { phase: "calling" }));
  check("a new phase comes without text", [calling.jobs.get("c").phase, calling.drafts.size], ["calling", 0]);
  check("a phase told twice changes nothing", m.applyDraft(calling, piece(0, "", { phase: "calling" })) === calling, true);
  check("words come with their phase", m.applyDraft(calling, piece(0, "The", { phase: "writing" })).jobs.get("c").phase, "writing");
  const ended = m.apply(calling, event("jobs_changed", { jobs: [job("c", { stage: "antithesis" })] }));
  check("a draft that is late does not change a call that ended", m.applyDraft(ended, piece(0, "", { phase: "saving" })) === ended, true);
  check("a call that ended has no draft", m.apply(drafted, event("jobs_changed", { jobs: [job("c", { stage: "antithesis" })] })).drafts.size, 0);

  check("the past: now", m.at(begun, null) === begun, true);
  const first = m.at(begun, ms(-5));
  check("the past: before the beginning", [first.jobs.size, first.documents.size, first.stages[0].status, first.money.spent], [0, 0, "not_begun", "0"]);
  const middle = m.at(begun, ms(11));
  check("the past: in the middle", [
    middle.jobs.get("a").status, middle.jobs.get("a").words, middle.jobs.get("b").status, middle.documents.size,
    middle.stages[0].finished, middle.stages[0].running, middle.stages[0].status, middle.stages[0].steps[0].finished, middle.money.spent, middle.feedback.size,
  ], ["processing", 90, "completed", 1, 1, 1, "generating", 1, "0.01", 0]);
  check("the past: before the first word", [m.at(begun, ms(1.5)).jobs.get("a").phase, m.at(begun, ms(0.5)).jobs.get("a").phase], ["calling", "queued"]);
  const end = m.at(begun, m.span(begun).to);
  check("the past: at the end it is as now", end === begun, true);
  check("the past: the state of the session", [m.at(begun, ms(-5)), m.at(begun, ms(5))].map((past) => [past.session.status, past.session.allowed]), [["pending_thesis", []], ["generating_thesis", []]]);
  const late = m.fromBoard({ ...board(), documents: [{ id: "d-a2", original_id: "d-a", job_id: "a", version: 2, created_at: time(900) }, { id: "d-b", original_id: "d-b", job_id: "b", version: 1, created_at: time(10) }], jobs: [job("a", { completed_at: time(6) }), job("b")] });
  check("the past: a document that was edited later was there when its call ended", [...m.at(late, ms(7)).documents.keys()], ["d-a2"]);
  const early = m.fromBoard({ ...board(), jobs: [job("a", { completed_at: time(8) }), job("b", { reads: ["d-a"], first_token_at: null })] });
  check("a call that was taken too early began when all that it reads was written", [m.listTimes(early).get("b").start, m.ranFor(early, early.jobs.get("b")), m.at(early, ms(7)).jobs.get("b").status], [ms(8), 4, "pending"]);
  check("without a first word, words flow after a tenth of the call", [m.shareAt(early.jobs.get("b"), ms(8.4), ms(8)), m.shareAt(early.jobs.get("b"), ms(10.2), ms(8))], [0, 0.5]);
  check("the span", [m.span(begun).from, m.span(begun).to], [ms(0), ms(12)]);
};
