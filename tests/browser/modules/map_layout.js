// Assertions about views/session/map_layout.js; `check(name, found, wanted)` comes from the test.
export default async (base, check) => {
  const { choose, claimsAt, countClaims, group, layOut, listCells, listColumns, listSteps, spread } = await import(`${base}/js/views/session/map_layout.js`);
  const step = (key, strategy = "per_model") => ({ key, title: key, strategy, is_intermediate: false });
  const stage = (slug, position, steps) => ({ slug, title: slug, position, status: "complete", iteration: 1, steps });
  const stages = [stage("a", 1, [step("a")]), stage("b", 2, [step("b", "per_source_document")]), stage("c", 3, [step("c1"), step("c2")]), stage("d", 4, [step("d")])];
  const documents = new Map([["t1", { id: "t1", original_id: "t1", stage: "a", step: "a", seat: 1 }], ["k1", { id: "k1", original_id: "k1", stage: "b", step: "b", seat: 2 }], ["s1", { id: "s1", original_id: "s1", stage: "c", step: "c2", seat: 1 }], ["p1", { id: "p1", original_id: "p1", stage: "d", step: "d", seat: 1 }]]);
  const model = { stages, documents, jobs: new Map(), feedback: new Map(), session: { until: "d", seats: [{ index: 1 }, { index: 2 }] } };
  const claim = (id, fates, rest = {}) => ({ id, seat: 1, stage: "a", document_id: "t1", text: id, is_lone: true, is_contested: false, critics: [], final: fates.at(-1) ?? "pending", ...rest,
    fates: fates.map((fate, n) => ({ stage: ["c", "d"][n], fate, document_ids: [], text: "" })) });
  const contested = claim("x", ["changed", "changed"], { is_contested: true, critics: [{ seat: 2, document_id: "k1", verdict: "change" }, { seat: 2, document_id: "k1", verdict: "keep" }] });
  const claims = [contested, claim("y", ["kept", "dropped"]), claim("z", ["dropped", "kept"]), claim("w", ["refused", "refused"])];
  const never = () => false;

  const columns = listColumns(model, claims);
  check("columns are born, criticised, judged", columns.map((column) => column.kind), ["birth", "critics", "fates", "fates"]);
  const { threads } = layOut(group(claims, never), { columns, seats: [1, 2], step: 100 });
  const kinds = threads.map((thread) => [thread.lines.map((line) => line.kind).join(" "), thread.ends.map((end) => end.kind).join(" ")]);
  check("a thread goes on or ends", kinds, [["line line line", ""], ["line line ending", "dropped"], ["line ending gap", "dropped"], ["line ending", "refused"]]);
  check("the sterner of two marks of a seat is shown", threads[0].critics.map((mark) => mark.critic.verdict), ["change"]);
  const [one, two] = spread([10, 11, 200], 400).slice(0, 2);
  check("lanes keep apart", two - one >= 12.9, true);
  check("a lane alone stays", spread([50], 400), [50]);

  const many = Array.from({ length: 70 }, (_, n) => claim(`m${n}`, ["kept"], { seat: n < 35 ? 1 : 2, critics: n === 30 ? contested.critics : [] }));
  const folded = group(many, never);
  check("many are folded to twelve of a seat", folded.map((each) => [each.claims.length, each.all]), [[12, 35], [12, 35]]);
  check("the contested one is among them", folded[0].claims.some((each) => each.id === "m30"), true);
  check("what is picked is shown", group(many, never, { picked: "m34" })[0].claims.some((each) => each.id === "m34"), true);
  check("all are shown on request", group(many, never, { isOpen: true })[0].claims.length, 35);
  const all = { statuses: new Set(), seats: new Set(), only: new Set() };
  check("filters", [choose(claims, { ...all, statuses: new Set(["dropped"]) }, never).length, choose(claims, { ...all, only: new Set(["contested"]) }, never).length, choose(claims, { ...all, seats: new Set([2]) }, never).length], [1, 1, 0]);
  check("counts", countClaims(claims, never), { kept: 1, changed: 1, refused: 1, dropped: 1, pending: 0, contested: 1, lone: 4, ruled: 0 });

  const early = { ...model, documents: new Map([["t1", documents.get("t1")]]) };
  check("before its critics a claim has none and is open", claimsAt(early, claims).map((each) => [each.critics.length, each.fates.length, each.final])[0], [0, 0, "pending"]);
  check("before its proposal there is no claim", claimsAt({ ...model, documents: new Map() }, claims).length, 0);
  const middle = { ...model, documents: new Map([...documents].filter(([id]) => id !== "p1")) };
  check("a moment ends where its documents do", claimsAt(middle, claims).map((each) => each.final), ["changed", "kept", "dropped", "refused"]);

  const steps = listSteps(model, "a");
  check("the steps that merge", steps.map((each) => each.key), ["c/c1", "c/c2", "d"]);
  const place = (key) => ({ stage: key.split("/")[0], step: key.split("/")[1] ?? "" });
  check("kept", listCells({ status: "kept" }, steps), ["full", "full", "full"]);
  check("changed on the way", listCells({ status: "changed", changed: { after: place("c/c2") } }, steps), ["full", "changed", "changed"]);
  check("refused at the end", listCells({ status: "refused", refused: { place: place("d") } }, steps), ["named", "named", "refused"]);
  check("dropped at once", listCells({ status: "dropped", last_seen: "a", lost_at: "c/c1" }, steps), ["dropped", "empty", "empty"]);
  check("not judged yet", listCells({ status: "pending" }, steps), ["pending", "pending", "pending"]);
};
