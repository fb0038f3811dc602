"""Run one claimed job from start to finish. Read this first; each verb is a module next to it.

    load        load what the job needs, in one transaction

    plan        create a stage's child jobs as soon as their inputs exist (pure)
    combine     split documents that exceed a child's context window into merge jobs, level by
                level (pure)

    gather      collect the texts of one turn: its own inputs, nothing else of the stage (pure)
    learned     find how long the answer may be: what such documents need, with headroom
    ladder      shrink a prompt that does not fit its model: combine or search the inputs if the
                step says so, then compress what is still too long
      assemble    build the request and count its tokens (pure)
      shorten     find or make a shorter text once; reserve and pay for it like a call
    call        send one request when the endpoint has capacity; if the provider says that the
                prompt is too long, send one shorter request
      reserve     reserve money for the call: the last commit before the request is sent
    interpret   decide what the answer means: finished, or cut off and to be continued (pure)
    repair      decide whether to ask once for missing sections, or for a document in place of a
                copy (pure)
    second_look show a finished document once what it lost of its inputs, if its part of the process
                says so (pure)

    save        commit once: the plan or the document, the job's new state, the jobs it wakes,
                the events, the payment

A document that does not fit into one answer takes several turns. Each turn is a claim of the same
job with its own commit. The last turn joins all of them into the document.

No transaction is open while a model generates. If the process dies before `save` commits, only the
job's lease has changed; after the commit, everything has. Shortened texts are the exception: they
are saved earlier, so that the next attempt or another job can reuse them.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import assert_never

from dialectic.core.documents.turns import Ask
from dialectic.core.job import (
    CombinePayload,
    ExecutePayload,
    Job,
    MergePayload,
    PlanPayload,
    TurnPayload,
    parse_payload,
)
from dialectic.core.models.call_record import Refusal
from dialectic.core.models.model import ModelCard
from dialectic.engine import Engine
from dialectic.errors import ContextWindowError, ProviderError
from dialectic.ledger.holds import Purpose, derive_hold_key
from dialectic.pipeline.call import call, describe_call
from dialectic.pipeline.fit.combine import gather_merge, plan_level
from dialectic.pipeline.fit.compress import Fitted, compress, decide_again, run_aside
from dialectic.pipeline.fit.ladder import choose_compressor, make_room
from dialectic.pipeline.fit.turn import Needed, Turn
from dialectic.pipeline.gather import Material, gather
from dialectic.pipeline.interpret import Limits, is_final
from dialectic.pipeline.learned import load_answer_limit
from dialectic.pipeline.load import JobContext, load_job_context
from dialectic.pipeline.own_models import load_card
from dialectic.pipeline.plan import decide_plan, list_missing
from dialectic.pipeline.repair import close_early, decide_outcome, give_up
from dialectic.pipeline.reserve import Payment, release
from dialectic.pipeline.save import (
    Paid,
    save_begin,
    save_combined,
    save_level,
    save_need,
    save_plan,
    save_seed,
    save_total,
    save_turn,
    save_wait,
    save_wait_for_others,
)
from dialectic.pipeline.second_look import prepare_look


async def run_job(engine: Engine, job: Job) -> None:
    """Run one claimed job. Returns when its outcome is saved; raises the error otherwise."""
    engine.failpoints.reach("after_claim")
    payload = parse_payload(job.payload_json)
    if payload.after and await save_wait_for_others(engine, job, payload.after):
        return
    context = await load_job_context(engine, job, payload)
    match payload:
        case PlanPayload() if not context.chunks:
            await run_plan(engine, job, payload, context)
        case PlanPayload() | ExecutePayload() | MergePayload():
            await run_turn(engine, job, payload, context)
        case CombinePayload():
            await run_combine(engine, job, payload, context)
        case unreachable:
            assert_never(unreachable)


async def run_plan(engine: Engine, job: Job, payload: PlanPayload, context: JobContext) -> None:
    """Plan one model's part of a stage: create the jobs of its steps, or run it as one turn."""
    stage = context.process.load_stage(job.stage_slug)
    missing: tuple[str, ...] = ()
    if context.situation is not None:
        missing = list_missing(stage, stage.inputs_required, payload.model_index, context.situation)
    if context.has_other_total(stage.slug):
        await save_total(engine, job, context)
    present = [s for s in context.get_seats(stage.slug) if s in context.active_seats]
    is_first = payload.model_index == min(present, default=0) and payload.edition == 1
    if is_first and not missing and stage.slug not in context.seeded:
        await save_seed(engine, job, context, stage)
    begins = stage.slug in context.waiting
    if stage.steps:
        assert context.situation is not None, "a stage with steps has inputs"
        decision = decide_plan(job.id, payload, stage, job.current_step, context.situation)
        await save_plan(engine, job, stage, decision, begins=begins)
    elif missing:
        await save_wait(engine, job, missing)
    else:
        if begins:
            await save_begin(engine, job)
        await run_turn(engine, job, payload, context)


async def run_combine(
    engine: Engine, job: Job, payload: CombinePayload, context: JobContext
) -> None:
    """Merge documents that are too long for their reader, level by level, until they fit."""
    card = await load_card(engine, job.tenant_id, payload.model_name)
    level = await plan_level(engine, job, payload, context, card)
    if level.merges:
        await save_level(engine, job, level)
    else:
        await save_combined(engine, job, level)


async def run_turn(engine: Engine, job: Job, payload: TurnPayload, context: JobContext) -> None:
    """Write one document with one model, or as much of it as fits into one answer."""
    card = await load_card(engine, job.tenant_id, payload.model_name)
    with engine.live_calls.track(describe_call(job, card, turn=len(context.chunks))):
        await write_turn(engine, job, payload, context, card)


async def write_turn(
    engine: Engine, job: Job, payload: TurnPayload, context: JobContext, card: ModelCard
) -> None:
    """Make the prompt of a turn fit, call the model, decide what its answer means and save it."""
    gathered = _gather(context, job, payload)
    material = await run_aside(gathered, functools.partial(prepare_look, gathered))
    if material.ask is Ask.LOOK and not (material.look and material.look.omissions):
        await save_turn(engine, job, material, give_up(material))  # the process lost its look
        return
    limit = await load_answer_limit(engine, job, context, material, card)
    turn = await make_room(Turn(engine, job, context, material, card, limit))
    if isinstance(turn, Needed):
        await save_need(engine, job, turn)
        return
    material = turn.material
    try:
        paid = await ask(turn)
    except ContextWindowError:
        if not material.chunks:
            raise
        # Another turn does not fit, even with everything shortened. The turns so far are paid
        # for, so save them as the document.
        await save_turn(engine, job, material, close_early(material))
        return
    except ProviderError as error:
        # A document that is finished must not fail because its repair does.
        patience_s = engine.settings.retry_unreachable_s
        if material.ask is Ask.TEXT or not is_final(job, error, unreachable_max_s=patience_s):
            raise
        await save_turn(engine, job, material, give_up(material), error=error)
        return
    # A document that a person lets go on gets all its further turns again.
    begun = len(context.chunks) if payload.continues else 0
    limits = Limits(
        context.continues or bool(payload.continues), engine.settings.max_continuations + begun
    )
    decide = functools.partial(decide_outcome, paid.answer.reply, material, limits)
    reply, outcome = await run_aside(material, decide, answer=paid.answer.reply.text)
    await save_turn(engine, job, material, outcome, paid.replace_reply(reply))


async def ask(turn: Turn) -> Paid:
    """Call the model; if it rejects the prompt as too long, call once more with a shorter one."""
    engine, job, material, card = turn.engine, turn.job, turn.material, turn.card
    compressor = await choose_compressor(turn)
    fitted = await compress(material, card, compressor)

    async def send(fitted: Fitted, *refused: Refusal) -> Paid:
        key = derive_hold_key(
            job.id, attempt=job.attempt, turn=len(material.chunks), again=len(refused)
        )
        payment = Payment(
            turn.wallet_id,
            key,
            Purpose.LOOK if material.ask is Ask.LOOK else Purpose.CALL,
            full_answers_only=turn.context.full_answers_only,
            is_approved=turn.context.approve_spend,
        )
        cap = min(fitted.request.max_output_tokens, turn.output_cap)
        request = replace(fitted.request, max_output_tokens=cap)
        held, answer = await call(engine, job, card, request, payment)
        return Paid(card, held, replace(answer, refused=refused), fitted.manifest)

    try:
        return await send(fitted)
    except ContextWindowError as error:
        # The provider rejected the request: release its reservation.
        await turn.transact(lambda connection: release(connection, job))
        less = decide_again(error, fitted.counted_tokens)
        try:
            fitted = await compress(material, card, compressor, tokens_max=less)
        except ContextWindowError:
            raise error from None
        refusal = Refusal(error.had_tokens, error.max_tokens)
    return await send(fitted, refusal)


def _gather(context: JobContext, job: Job, payload: TurnPayload) -> Material:
    if isinstance(payload, MergePayload):
        return gather_merge(context, job, payload)
    return gather(context, job, payload)
