"""The life of a job, on one page. Read this first; each verb is a module beside it.

    look        what this job must know, in one transaction

    plan        a stage's work, dealt out to children as their inputs come to exist (pure)

    gather      the words of one turn: its own inputs, and nothing else of the stage (pure)
    assemble    one complete request, counted in tokens, that fits the model (pure)
    hold        money set aside for the call: a commit, before any byte leaves
    call        one attempt at the provider
    follow      what the answer means for the job: done, or cut off and to be gone on with (pure)

    save        one commit: what was planned or written, the job's move, those who wait, the news,
                the money

A document that does not fit into one answer takes several turns. Each is a claim of the same job
and a commit of its own; the last one makes the document of all of them.

No transaction is open while a model thinks. A process that dies before `save` has changed nothing
but the job's lease; after it, everything.
"""

from __future__ import annotations

from typing import assert_never

from dialectic.domain.job import ExecutePayload, Job, PlanPayload, parse_payload
from dialectic.engine import Engine
from dialectic.errors import ContextWindowError
from dialectic.pipeline.assemble import assemble
from dialectic.pipeline.call import call
from dialectic.pipeline.follow import WINDOW_FULL, Limits, close, follow
from dialectic.pipeline.gather import gather
from dialectic.pipeline.hold import hold
from dialectic.pipeline.look import Scene, look
from dialectic.pipeline.plan import decide_plan, find_missing
from dialectic.pipeline.save import Paid, save_plan, save_seed, save_turn, save_wait


async def run_job(engine: Engine, job: Job) -> None:
    """Carry out one claimed job. Returns when its outcome is saved; raises what went wrong."""
    engine.failpoints.reach("after_claim")
    payload = parse_payload(job.payload_json)
    scene = await look(engine, job, payload)
    match payload:
        case PlanPayload() if not scene.chunks:
            await run_plan(engine, job, payload, scene)
        case PlanPayload() | ExecutePayload():
            await run_turn(engine, job, payload, scene)
        case unreachable:
            assert_never(unreachable)


async def run_plan(engine: Engine, job: Job, payload: PlanPayload, scene: Scene) -> None:
    """One model's part in a stage: deal it out in steps, or carry it out as one turn."""
    stage = scene.process.load_stage(job.stage_slug)
    missing: tuple[str, ...] = ()
    if scene.situation is not None:
        missing = find_missing(stage, stage.inputs_required, payload.model_index, scene.situation)
    is_first = payload.model_index == 1 and payload.edition == 1
    if is_first and not missing and stage.slug not in scene.seeded:
        await save_seed(engine, job, scene, stage)
    if stage.steps:
        assert scene.situation is not None, "a stage with steps reads something"
        decision = decide_plan(job.id, payload, stage, job.current_step, scene.situation)
        await save_plan(engine, job, stage, decision)
    elif missing:
        await save_wait(engine, job, missing)
    else:
        await run_turn(engine, job, payload, scene)


async def run_turn(
    engine: Engine, job: Job, payload: PlanPayload | ExecutePayload, scene: Scene
) -> None:
    """One document by one model, or as much of it as fits into an answer."""
    card = engine.catalog.load_card(payload.model_name)
    material = gather(scene, job, payload)
    try:
        request = assemble(material, card)
        turn = len(material.chunks)
        held = await hold(engine, job, card, request, wallet_id=scene.wallet_id, turn=turn)
        answer = await call(engine, job, card, held)
    except ContextWindowError:
        if not material.chunks:
            raise
        # There is no room for another turn. What was said is paid for: it is the document.
        await save_turn(engine, job, material, close(material.said, WINDOW_FULL))
        return
    limits = Limits(scene.continues, engine.settings.max_continuations)
    outcome = follow(answer.reply, material.said, limits)
    await save_turn(engine, job, material, outcome, Paid(card, held, answer))
