"""Parents whose children end at the same moment, and what must have become of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from chaos.bare_jobs import (
    build_end,
    claim_jobs,
    count_messages,
    draw_id,
    insert_jobs,
    make_session,
)
from chaos.gate import Gate
from chaos.lab import Lab

CHILDREN_MIN, CHILDREN_MAX = 2, 16
PARENTS_PER_SESSION = 50

WAIT_FOR_CHILDREN = """
  update dialectic.dialectic_generation_jobs j
  set status = 'waiting_for_children', total_steps = made.steps, on_child_failure = made.rule,
      quorum_min = made.quorum_min
  from unnest($2::uuid[], $3::integer[], $4::text[], $5::integer[])
    as made (id, steps, rule, quorum_min)
  where j.tenant_id = $1 and j.id = made.id
"""
PARENTS = """
  select j.id, j.status::text, j.current_step,
    (select count(*) from chaos.moves m
     where m.job_id = j.id and m.from_status = 'waiting_for_children'
       and m.to_status <> 'waiting_for_children') as wakes,
    (select count(*) from dialectic.dialectic_generation_jobs c
     where c.tenant_id = j.tenant_id and c.parent_job_id = j.id
       and not dialectic.is_ended(c.status)) as open_children
  from dialectic.dialectic_generation_jobs j where j.parent_job_id is null
"""
STAGES = """
  select r.session_id, r.status, (
    select count(*) from dialectic.notifications n
    where n.tenant_id = r.tenant_id and n.session_id = r.session_id
      and n.type = 'contribution_generation_complete') as told
  from dialectic.dialectic_stage_runs r
"""


@dataclass(slots=True)
class Parent:
    """A parent, the rule for its children, and how each child of each step will end."""

    id: UUID
    session_id: UUID
    rule: str
    quorum_min: int | None
    # For each step, whether each of its children ends well.
    steps: list[list[bool]]
    children: list[UUID] = field(default_factory=list)

    def decide_end(self, step: int) -> str:
        """Decide how the parent must stand once all children of a step have ended."""
        ends = self.steps[step - 1]
        needed = {"all": len(ends), "any": 1}.get(self.rule, self.quorum_min or 0)
        if sum(ends) < needed:
            return "failed"
        return "completed" if step == len(self.steps) else "pending_next_step"

    @property
    def steps_run(self) -> int:
        """How many steps are run: none after one that fails."""
        for step in range(1, len(self.steps) + 1):
            if self.decide_end(step) == "failed":
                return step
        return len(self.steps)


def build_parent(rng: Random, session_id: UUID) -> Parent:
    """Draw a parent: most need all their children, and most children end well."""
    rule = rng.choices(("all", "quorum", "any"), (8, 1, 1))[0]
    failing = rng.choices((0.0, 0.1, 0.5), (7, 2, 1))[0]
    sizes = [rng.randint(CHILDREN_MIN, CHILDREN_MAX) for _ in range(rng.choice((1, 1, 1, 2)))]
    return Parent(
        id=draw_id(rng),
        session_id=session_id,
        rule=rule,
        quorum_min=rng.randint(1, min(sizes)) if rule == "quorum" else None,
        steps=[[rng.random() >= failing for _ in range(size)] for size in sizes],
    )


async def make_parents(lab: Lab, count: int) -> list[Parent]:
    parents: list[Parent] = []
    for start in range(0, count, PARENTS_PER_SESSION):
        units = min(PARENTS_PER_SESSION, count - start)
        session_id = await make_session(lab, units)
        parents += [build_parent(lab.rng, session_id) for _ in range(units)]
    session_ids = [parent.session_id for parent in parents]
    ids = [parent.id for parent in parents]
    await insert_jobs(lab, 0, ids, session_ids, [None] * count)
    return parents


async def race_children(lab: Lab, gate: Gate, parents: Sequence[Parent]) -> None:
    """Run step after step of these parents, as long as they wake."""
    for step in range(1, max(len(parent.steps) for parent in parents) + 1):
        due = [parent for parent in parents if len(parent.steps) >= step]
        awake = await claim_jobs(lab, [parent.id for parent in due])
        due = [parent for parent in due if parent.id in awake]
        for parent in due:
            ends = parent.steps[step - 1]
            parent.children = [draw_id(lab.rng) for _ in ends]
        children = [(child, parent) for parent in due for child in parent.children]
        await insert_jobs(
            lab,
            step,
            [child for child, _ in children],
            [parent.session_id for _, parent in children],
            [parent.id for _, parent in children],
        )
        await claim_jobs(lab, [child for child, _ in children])
        await lab.execute(
            WAIT_FOR_CHILDREN,
            lab.account.tenant_id,
            [parent.id for parent in due],
            [len(parent.steps) for parent in due],
            [parent.rule for parent in due],
            [parent.quorum_min for parent in due],
        )
        for group in split_by_width(due, gate.width):
            await gate.race([s for parent in group for s in build_ends(parent, step)])


def build_ends(parent: Parent, step: int) -> list[str]:
    pairs = zip(parent.children, parent.steps[step - 1], strict=True)
    return [build_end(parent.session_id, child, ends_well=ends_well) for child, ends_well in pairs]


def split_by_width(parents: Sequence[Parent], width_max: int) -> Iterator[list[Parent]]:
    """Split parents into groups whose children all find a connection."""
    group: list[Parent] = []
    width = 0
    for parent in parents:
        if width + len(parent.children) > width_max:
            yield group
            group, width = [], 0
        group.append(parent)
        width += len(parent.children)
    if group:
        yield group


def count_children(parents: Sequence[Parent]) -> int:
    return sum(len(step) for parent in parents for step in parent.steps[: parent.steps_run])


async def check_parents(lab: Lab, parents: Sequence[Parent]) -> None:
    report = lab.report
    rows = {row["id"]: row for row in await lab.fetch(PARENTS)}
    sent = await count_messages(lab)
    report.note("parents", len(parents))
    report.note("children", count_children(parents))
    report.expect_none(
        "lost wake-ups",
        [
            f"{parent.id} waits at step {rows[parent.id]['current_step']}"
            for parent in parents
            if rows[parent.id]["status"] == "waiting_for_children"
        ],
    )
    report.expect_none(
        "double wake-ups",
        [p.id for p in parents if rows[p.id]["wakes"] > p.steps_run],
    )
    report.expect_none(
        "parents that did not end as their children say",
        [
            f"{parent.id} is {rows[parent.id]['status']}, not {parent.decide_end(parent.steps_run)}"
            for parent in parents
            if rows[parent.id]["status"] != parent.decide_end(parent.steps_run)
        ],
    )
    # One message when it was made, one for each further step it was woken for.
    report.expect_none(
        "parents not sent exactly once per step",
        [f"{p.id}: {sent.get(p.id)} messages" for p in parents if sent.get(p.id) != p.steps_run],
    )
    report.expect_none("children left open", [i for i, row in rows.items() if row["open_children"]])
    await _check_stages(lab, parents)


async def _check_stages(lab: Lab, parents: Sequence[Parent]) -> None:
    failed = {p.session_id for p in parents if p.decide_end(p.steps_run) == "failed"}
    wrong = []
    for row in await lab.fetch(STAGES):
        wanted = ("failed" if row["session_id"] in failed else "complete", 1)
        if (row["status"], row["told"]) != wanted:
            wrong.append(f"{row['session_id']} is {row['status']}, told {row['told']} times")
    lab.report.expect_none("stages that did not end exactly once", wrong)
