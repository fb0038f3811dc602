"""Agents carry planted points through the prompts of a process, each as its script says."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.prompts import build_block
from dialectic.core.documents.second_look import read_look
from dialectic.errors import ConfigurationError
from dialectic.processes.loader import load_process
from dialectic_simulator.agents import Agent, Decision, Mind, Rule, write_points
from dialectic_simulator.script import build_script
from dialectic_simulator.world import World, draw_world, hash_text
from tests.unit.processes.planted_facts import _compose

WORLD = draw_world(3, points=40, wrong=0.25)
PROPOSAL = "## Proposal\n\nA first paragraph.\n\n## Rejected points\n\nNone so far.\n\n"
CRITIQUE = "## Critique\n\nIt is a start.\n\n## Risks\n\nThere are some.\n"
RIGHT = [point for point in WORLD.points if not point.is_wrong]
WRONG = [point for point in WORLD.points if point.is_wrong]


def think(agent: Agent, *, seed: int = 0, world: World = WORLD, place: int = 0) -> Mind:
    return Mind(world, agent, place, Random(seed))


def state(*ids: str) -> str:
    """Write a document that states points, in their first wording."""
    return "\n\n".join(["## Proposal", *(WORLD.by_id[each].wordings[0] for each in ids)])


def reject(*ids: str) -> str:
    """Write a document that rejects points and states none."""
    return "\n".join(f"- “{WORLD.by_id[each].wordings[0]}”: no." for each in ids)


def build_task(*texts: str) -> str:
    blocks = [build_block("Original request", "Plan a hall.")]
    blocks += [build_block(f"Thesis {n}", text) for n, text in enumerate(texts, start=1)]
    return "\n\n".join(blocks)


def test_a_world_has_its_share_of_wrong_points_and_each_form_once() -> None:
    assert len(WRONG) == 10
    wordings = [wording for point in WORLD.points for wording in point.wordings]
    assert len(wordings) == len(set(wordings)) == 160
    assert draw_world(3, points=40, wrong=0.25) == WORLD
    assert draw_world(4, points=40, wrong=0.25) != WORLD


def test_lone_points_are_dealt_to_one_agent_each_and_only_that_one_states_them() -> None:
    world = draw_world(1, points=60, wrong=0.2, lone=1.0, owners=3)
    said = [
        think(Agent(knows=1.0), world=world, place=place).decide(build_task(), PROPOSAL).states
        for place in range(3)
    ]
    assert sorted(len(each) for each in said) == [20, 20, 20]
    assert not set(said[0]) & set(said[1])


@given(st.integers(0, 10_000))
def test_what_an_agent_writes_can_be_read_again(seed: int) -> None:
    chance = Random(seed)
    stated = chance.sample(RIGHT, 9)
    rejected = chance.sample(WRONG, 4)
    decision = Decision(
        {point.id: chance.choice(point.wordings) for point in stated},
        {point.id: chance.choice(point.wordings) for point in rejected},
    )
    found = WORLD.read(write_points(PROPOSAL, decision, chance))
    assert found.states == decision.states
    assert found.rejects == decision.rejects


def test_rejected_points_are_written_only_where_the_form_has_a_place_for_them() -> None:
    decision = Decision({}, {WRONG[0].id: WRONG[0].wordings[0]})
    assert not WORLD.read(write_points("## Plan\n\nA plan.\n\n", decision, Random(0))).rejects
    assert WORLD.read(write_points(CRITIQUE, decision, Random(0))).rejects


def test_a_critic_objects_to_wrong_points_as_often_as_it_notices_them() -> None:
    task = build_task(state(*WORLD.by_id))
    objections = [
        set(think(Agent(notices=0.7, misjudges=0.1), seed=seed).decide(task, CRITIQUE).rejects)
        for seed in range(200)
    ]
    wrong = sum(len(each & {p.id for p in WRONG}) for each in objections) / (200 * len(WRONG))
    right = sum(len(each & {p.id for p in RIGHT}) for each in objections) / (200 * len(RIGHT))
    assert wrong == pytest.approx(0.7, abs=0.04)
    assert right == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("rule", "dropped"), [(Rule.VOTE, 0.8 / 3), (Rule.UNION, 0.0), (Rule.ANY, 0.8)]
)
def test_a_merge_drops_a_contested_point_by_its_rule(rule: Rule, dropped: float) -> None:
    number, other = WRONG[0].id, RIGHT[0].id
    task = build_task(state(number), state(number), f"{state(other)}\n{reject(number)}")
    agent = Agent(rule=rule, drops=0.8, keeps=1.0)
    kept = [number in think(agent, seed=s).decide(task, PROPOSAL).states for s in range(600)]
    assert 1 - sum(kept) / len(kept) == pytest.approx(dropped, abs=0.05)


@pytest.mark.parametrize(("critics", "objecting", "dropped"), [(1, 1, 0.8), (4, 1, 0.2), (3, 0, 0)])
def test_a_text_loses_a_point_by_the_share_of_its_critics_that_object(
    critics: int, objecting: int, dropped: float
) -> None:
    number, other = WRONG[0].id, RIGHT[0].id
    reviews = [reject(number)] * objecting + ["It is fine."] * (critics - objecting)
    task = build_task(state(number, other), *reviews)
    agent = Agent(drops=0.8, keeps=1.0)
    kept = [number in think(agent, seed=s).decide(task, PROPOSAL).states for s in range(600)]
    assert 1 - sum(kept) / len(kept) == pytest.approx(dropped, abs=0.05)


def test_a_point_that_no_source_states_does_not_come_back() -> None:
    task = build_task(state(RIGHT[0].id) + "\n" + reject(WRONG[0].id))
    decision = think(Agent(keeps=1.0, rule=Rule.UNION)).decide(task, PROPOSAL)
    assert WRONG[0].id in decision.rejects
    assert set(decision.states) == {RIGHT[0].id}


def test_the_filler_knows_nothing_of_the_points_around_it() -> None:
    task = build_task(state(*WORLD.by_id))
    assert not WORLD.read(WORLD.remove_points(task)).states


def test_every_step_of_a_shipped_process_gets_an_answer_that_carries_points() -> None:
    process = load_process("standard")
    for stage in process.order[1:]:
        for part in stage.parts:
            task = _compose(process, stage, part, [state(RIGHT[0].id, WRONG[0].id)])
            filler = write_filler(task)
            mind = think(Agent(notices=1.0, misjudges=0.0, keeps=1.0, drops=1.0))
            found = WORLD.read(mind.answer(task, filler))
            if part.output_type == "antithesis":
                assert set(found.rejects) == {WRONG[0].id}, part.output_type
            else:
                assert set(found.states) == {RIGHT[0].id, WRONG[0].id}, part.output_type


def write_filler(task: str) -> str:
    from dialectic.providers.offline.composer import compose

    return compose("offline/skeptic", "", WORLD.remove_points(task), Random(1))


def test_a_second_look_adds_what_the_document_lost_and_nothing_that_it_rejects() -> None:
    lost, rejected, forgotten = RIGHT[0], WRONG[0], RIGHT[1]
    document = f"## Summary\n\nIn short.\n\n## Plan\n\nA plan.\n\n{reject(rejected.id)}"
    points = [(1, lost), (2, rejected), (3, forgotten)]
    passed_over = "\n".join(f"M{n} (Thesis A): {p.wordings[0]}" for n, p in points)
    task = "\n\n".join(
        [build_block("Document", document), build_block("Points passed over", passed_over)]
    )
    filler = "## Added\n\nNothing.\n\n## Left out on purpose\n\nNothing.\n"

    answer = think(Agent(keeps=1.0)).answer(task, filler)
    look = read_look(answer)
    assert look is not None
    assert set(WORLD.read(look.added).states) == {lost.id, forgotten.id}
    assert look.added.index("### Plan") >= 0
    assert set(look.reasons) == {2}

    everything = read_look(think(Agent(keeps=0.0)).answer(task, filler))
    assert everything is not None
    assert set(everything.reasons) == {1, 2, 3}


def test_hashes_of_documents_do_not_depend_on_blanks() -> None:
    assert hash_text("a  b\n\nc ") == hash_text("a b c")
    assert hash_text("a b") != hash_text("a c")


@pytest.mark.parametrize(
    "content",
    [
        {"agents": {"a": {}}},
        {"world": {"points": 0}},
        {"world": {"points": 10_000}},
        {"world": {"wrong": 1.5}},
        {"world": {}, "agents": {"a": {"knows": -0.1}}},
        {"world": {}, "agents": {"a": {"know": 0.1}}},
        {"world": {}, "agents": {"a": {"rule": "guess"}}},
    ],
)
def test_a_world_that_cannot_be_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        build_script(content)


# -- second looks ---------------------------------------------------------------------------------


def look_at(document: str, *passed: str) -> str:
    lines = [f"M{n} (Thesis A): {text}" for n, text in enumerate(passed, start=1)]
    return "\n\n".join(
        [
            build_block("Original request", "Plan a hall."),
            build_block("Document", document),
            build_block("Points passed over", "\n".join(lines)),
        ]
    )


def test_an_agent_that_is_shown_what_its_document_lost_adds_just_that() -> None:
    there, lost, refused = (point.id for point in RIGHT[:3])
    document = f"{state(there)}\n\n## Rejected points\n\n{reject(refused)}"
    passed = [WORLD.by_id[each].wordings[0] for each in (lost, refused)]
    decision = think(Agent(keeps=1.0)).decide(look_at(document, *passed), PROPOSAL)
    assert set(decision.states) == {lost}
    assert set(decision.rejects) == {refused}
    assert think(Agent(keeps=0.0)).decide(look_at(document, *passed), PROPOSAL) == Decision({}, {})
