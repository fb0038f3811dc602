"""The life of a job, on one page. Read this first; each verb is a module next to it.

    look        what this job must know, in one transaction

    plan        a stage's work, dealt out to children as their inputs come to exist (pure)
    combine     documents that a child has no room for, dealt out to merges, level by level (pure)

    gather      the words of one turn: its own inputs, and nothing else of the stage (pure)
    ladder      what is done with a prompt that does not fit its model: the inputs are combined or
                searched, if the step says so, and what is still too long is compressed
      assemble    the request, counted in tokens (pure)
      shorten     a shorter text, found or made once, held and paid for like a call
    call        one attempt at the provider, when its endpoint has room; if it says that the prompt
                is too long, one more
      hold        money set aside for the call: a commit, the last before any byte leaves
    follow      what the answer means for the job: done, or cut off and to be continued (pure)

    save        one commit: what was planned or written, the job's move, those who wait, the news,
                the money

A document that does not fit into one answer takes several turns. Each is a claim of the same job
and a commit of its own; the last one makes the document of all of them.

No transaction is open while a model thinks. A process that dies before `save` has changed nothing
but the job's lease; after it, everything. Only shorter texts are saved before: the next attempt, or
another job, finds them.
"""

from __future__ import annotations

from typing import assert_never

from dialectic.core.job import (
    CombinePayload,
    ExecutePayload,
    Job,
    MergePayload,
    PlanPayload,
    TurnPayload,
    parse_payload,
)
from dialectic.engine import Engine
from dialectic.errors import ContextWindowError
from dialectic.ledger.holds import derive_hold_key
from dialectic.pipeline.call import call
from dialectic.pipeline.fit.combine import gather_merge, plan_level
from dialectic.pipeline.fit.compress import Fitted, compress, decide_again
from dialectic.pipeline.fit.ladder import choose_compressor, make_room
from dialectic.pipeline.fit.shortener import Needed, Turn
from dialectic.pipeline.gather import Material, gather
from dialectic.pipeline.interpret import WINDOW_FULL, Limits, close, interpret
from dialectic.pipeline.load import JobContext, load_job_context
from dialectic.pipeline.plan import decide_plan, list_missing
from dialectic.pipeline.reserve import release, reserve
from dialectic.pipeline.save import (
    Paid,
    save_combined,
    save_level,
    save_need,
    save_plan,
    save_seed,
    save_turn,
    save_wait,
)


async def run_job(engine: Engine, job: Job) -> None:
    """Carry out one claimed job. Returns when its outcome is saved; raises what went wrong."""
    engine.failpoints.reach("after_claim")
    payload = parse_payload(job.payload_json)
    scene = await load_job_context(engine, job, payload)
    match payload:
        case PlanPayload() if not scene.chunks:
            await run_plan(engine, job, payload, scene)
        case PlanPayload() | ExecutePayload() | MergePayload():
            await run_turn(engine, job, payload, scene)
        case CombinePayload():
            await run_combine(engine, job, payload, scene)
        case unreachable:
            assert_never(unreachable)


async def run_plan(engine: Engine, job: Job, payload: PlanPayload, scene: JobContext) -> None:
    """One model's part in a stage: deal it out in steps, or carry it out as one turn."""
    stage = scene.process.load_stage(job.stage_slug)
    missing: tuple[str, ...] = ()
    if scene.situation is not None:
        missing = list_missing(stage, stage.inputs_required, payload.model_index, scene.situation)
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


async def run_combine(engine: Engine, job: Job, payload: CombinePayload, scene: JobContext) -> None:
    """Documents too long for their reader: merge them, and what comes of it, until they fit."""
    card = engine.catalog.load_card(payload.model_name)
    level = await plan_level(engine, job, payload, scene, card)
    if level.merges:
        await save_level(engine, job, level)
    else:
        await save_combined(engine, job, level)


async def run_turn(engine: Engine, job: Job, payload: TurnPayload, scene: JobContext) -> None:
    """One document by one model, or as much of it as fits into an answer."""
    card = engine.catalog.load_card(payload.model_name)
    turn = await make_room(Turn(engine, job, scene, _gather(scene, job, payload), card))
    if isinstance(turn, Needed):
        await save_need(engine, job, turn)
        return
    material = turn.material
    try:
        paid = await ask(turn)
    except ContextWindowError:
        if not material.chunks:
            raise
        # There is no room for another turn, however much is shortened. The turns so far are paid
        # for: they are the document.
        await save_turn(engine, job, material, close(material.said, WINDOW_FULL))
        return
    limits = Limits(scene.continues, engine.settings.max_continuations)
    outcome = interpret(paid.answer.reply, material.said, limits, has_stopped=material.has_stopped)
    await save_turn(engine, job, material, outcome, paid)


async def ask(turn: Turn) -> Paid:
    """Ask the model, with a prompt that fits; once more, with less, if it says that it does not."""
    engine, job, material, card = turn.engine, turn.job, turn.material, turn.card
    compressor = choose_compressor(turn)
    fitted = await compress(material, card, compressor)

    async def send(fitted: Fitted, again: int) -> Paid:
        key = derive_hold_key(job.id, attempt=job.attempt, turn=len(material.chunks), again=again)
        request, wallet_id = fitted.request, turn.wallet_id
        held, answer = await call(
            engine,
            job,
            card,
            request,
            lambda: reserve(engine, job, card, request, wallet_id=wallet_id, key=key),
        )
        return Paid(card, held, answer, fitted.manifest)

    try:
        return await send(fitted, 0)
    except ContextWindowError as error:
        # It was turned away, so its money is free again.
        await turn.transact(lambda connection: release(connection, job))
        less = decide_again(error, fitted.counted_tokens)
        try:
            fitted = await compress(material, card, compressor, tokens_max=less)
        except ContextWindowError:
            raise error from None
    return await send(fitted, 1)


def _gather(scene: JobContext, job: Job, payload: TurnPayload) -> Material:
    if isinstance(payload, MergePayload):
        return gather_merge(scene, job, payload)
    return gather(scene, job, payload)
