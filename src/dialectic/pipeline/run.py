"""The life of a job, on one page. Read this first; each verb is a module beside it.

    gather      what this job needs, and nothing else of the stage
    assemble    one complete request, counted in tokens, that fits the model
    call        one attempt at the provider
    follow      what the answer means for the job (pure)
    save        one commit: contribution, files, the job's move, those who wait, the news

No transaction is open while a model thinks. A process that dies before `save` has changed nothing
but the job's lease; after it, everything.
"""

from __future__ import annotations

from typing import assert_never

from dialectic.domain.job import ExecutePayload, Job, PlanPayload, parse_payload
from dialectic.engine import Engine
from dialectic.pipeline.assemble import assemble
from dialectic.pipeline.call import call
from dialectic.pipeline.follow import follow
from dialectic.pipeline.gather import gather
from dialectic.pipeline.save import save


async def run_job(engine: Engine, job: Job) -> None:
    """Carry out one claimed job. Returns when its outcome is saved; raises what went wrong."""
    engine.failpoints.reach("after_claim")
    match parse_payload(job.payload_json):
        case PlanPayload() as payload:
            await run_turn(engine, job, payload)
        case ExecutePayload() as payload:
            await run_turn(engine, job, payload)
        case unreachable:
            assert_never(unreachable)


async def run_turn(engine: Engine, job: Job, payload: PlanPayload | ExecutePayload) -> None:
    """One document by one model. A plan job of a stage without steps is carried out as this."""
    card = engine.catalog.load_card(payload.model_name)
    material = await gather(engine, job, payload)
    request = assemble(material, card)
    answer = await call(engine, card, request)
    outcome = follow(answer.reply)
    await save(engine, job, material, answer, outcome)
