"""Save a turn in one commit, then put its files into storage.

What is committed: the contribution, the bytes of its files, the job's move, whoever that wakes, the
news of it. If the process dies before the commit, nothing happened; if it dies after it, the bytes
are still in their rows and any worker carries them to storage (see `publish`).
"""

from __future__ import annotations

import json
from uuid import UUID

from dialectic.domain.document import render_document
from dialectic.domain.job import Job, derive_contribution_id
from dialectic.domain.path import build_path
from dialectic.domain.place import ContributionFile, RawResponse
from dialectic.engine import Engine
from dialectic.pipeline.call import Answer
from dialectic.pipeline.follow import Finish
from dialectic.pipeline.gather import Material
from dialectic.publish import publish_files
from dialectic.store import jobs, records
from dialectic.store.database import Connection
from dialectic.store.records import File


async def save(
    engine: Engine, job: Job, material: Material, answer: Answer, outcome: Finish
) -> None:
    """Save one finished document, or nothing: `LeaseLost` if the job was taken over."""
    contribution_id = derive_contribution_id(job.id)
    document = build_document(job, material, answer, outcome, contribution_id)
    raw = build_raw(material, answer)
    contribution = records.NewContribution(
        id=contribution_id,
        model_id=material.payload.model_id,
        model_name=material.payload.model_name,
        contribution_type=material.output_type,
        prompt_template_name=material.prompt_template_name,
        reply=answer.reply,
        file=document,
        raw_file=raw,
        is_incomplete=outcome.is_incomplete,
        flags=outcome.flags,
        processing_time_ms=answer.elapsed_ms,
    )

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await records.insert_files(connection, job.tenant_id, material.project_id, [document, raw])
        await records.insert_contribution(connection, job, contribution)
        results = {"contribution_id": str(contribution_id), "path": document.path}
        await jobs.complete(connection, job, results=results, finished_units=1)
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")
    await publish_files(engine, job.tenant_id, [document, raw])


def build_document(
    job: Job, material: Material, answer: Answer, outcome: Finish, contribution_id: UUID
) -> File:
    """Build the document a person reads. It holds no time: the same work makes the same bytes."""
    fields: dict[str, str | int | bool | list[str] | None] = {
        "contribution_id": str(contribution_id),
        "type": material.output_type,
        "stage": material.folder.stage,
        "iteration": job.iteration_number,
        "model": material.payload.model_name,
        "finish_reason": answer.reply.finish_reason.value,
        "incomplete": outcome.is_incomplete,
        "tokens_input": answer.reply.usage.input_tokens,
        "tokens_output": answer.reply.usage.output_tokens,
        "usage_source": answer.reply.usage.source.value,
    }
    text = render_document(fields, answer.reply.text)
    path = build_path(ContributionFile(material.folder, material.name))
    return File(path, text.encode(), "text/markdown")


def build_raw(material: Material, answer: Answer) -> File:
    """Build the provider's own record of the answer."""
    text = json.dumps(answer.reply.raw, ensure_ascii=False, indent=2, sort_keys=True)
    path = build_path(RawResponse(material.folder, material.name))
    return File(path, text.encode(), "application/json")
