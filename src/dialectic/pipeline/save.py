"""Save what a job came to, in one commit, then put its files into storage.

What is committed with a turn: the contribution, the documents cut out of it, the bytes of all their
files, the job's move, whoever that wakes, the news of it. With a plan: its new children, and what
it waits for. If the process dies before the commit, nothing happened; if it dies after it, the
bytes are still in their rows and any worker carries them to storage (see `publish`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from dialectic.domain.artifact import cut_documents, list_sections
from dialectic.domain.document import render_document
from dialectic.domain.job import Job, derive_contribution_id
from dialectic.domain.message import Request
from dialectic.domain.path import build_path
from dialectic.domain.place import (
    ContributionFile,
    ContributionName,
    Intermediate,
    RawResponse,
    StageDocument,
    StageFolder,
    WorkItem,
    WorkStatus,
)
from dialectic.domain.process import ExpectedDocument, Stage
from dialectic.domain.slug import slugify_name
from dialectic.engine import Engine
from dialectic.pipeline.call import Answer
from dialectic.pipeline.follow import CUT_OFF, Finish
from dialectic.pipeline.gather import Material
from dialectic.pipeline.look import Scene
from dialectic.pipeline.plan import Decision
from dialectic.pipeline.seed import build_seed_prompt
from dialectic.publish import publish_files
from dialectic.store import jobs, records
from dialectic.store.database import Connection
from dialectic.store.records import File, NewResource

FieldValue = str | int | bool | list[str] | None


async def save_turn(
    engine: Engine,
    job: Job,
    material: Material,
    request: Request,
    answer: Answer,
    outcome: Finish,
) -> None:
    """Save one finished document, or nothing: `LeaseLost` if the job was taken over."""
    contribution_id = derive_contribution_id(job.id)
    name = replace(material.name, version=material.payload.edition)
    cut = cut_documents(answer.reply.text, material.expected)
    flags = (
        *outcome.flags,
        *material.flags,
        *(f"missing:{key}" for key in cut.missing),
        *(f"cleaned: {note}" for note in answer.notes),
    )
    document = build_document(
        job, material, answer, contribution_id=contribution_id, name=name, flags=flags
    )
    raw = build_raw(material, name, request, answer)
    resources = list(build_resources(job, material, name, contribution_id, cut.found))
    contribution = build_contribution(
        material,
        answer,
        outcome,
        contribution_id=contribution_id,
        files=(document, raw),
        flags=flags,
    )

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await records.insert_files(
            connection, job.tenant_id, material.owner.project_id, [document, raw]
        )
        await records.insert_contribution(connection, job, contribution)
        await records.put_resources(connection, job.tenant_id, material.owner, resources)
        results = {
            "contribution_id": str(contribution_id),
            "path": document.path,
            "read": [
                {"label": item.label, "contribution_id": str(item.source_id)}
                for item in material.words.inputs
            ],
        }
        units = 1 if material.payload.edition == 1 else 0
        await jobs.complete(connection, job, results=results, finished_units=units)
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")
    files = [document, raw, *(resource.as_file() for resource in resources)]
    await publish_files(engine, job.tenant_id, files)


def build_contribution(
    material: Material,
    answer: Answer,
    outcome: Finish,
    *,
    contribution_id: UUID,
    files: tuple[File, File],
    flags: tuple[str, ...],
) -> records.NewContribution:
    """Build the record of a document."""
    payload = material.payload
    document, raw = files
    return records.NewContribution(
        id=contribution_id,
        model_id=payload.model_id,
        model_name=payload.model_name,
        model_index=payload.model_index,
        contribution_type=material.output_type,
        prompt_template_name=material.words.template_name,
        reply=answer.reply,
        file=document,
        raw_file=raw,
        is_incomplete=outcome.is_incomplete,
        is_intermediate=material.is_intermediate,
        flags=flags,
        processing_time_ms=answer.elapsed_ms,
        rank=material.rank,
        origin=material.origin,
        source_group=material.source_group,
        target_contribution_id=material.target_contribution_id,
        source_contribution_ids=tuple(
            item.source_id for item in material.words.inputs if item.source_id is not None
        ),
        edit_version=payload.edition,
        original_model_contribution_id=payload.replaces,
    )


def build_document(
    job: Job,
    material: Material,
    answer: Answer,
    *,
    contribution_id: UUID,
    name: ContributionName,
    flags: tuple[str, ...],
) -> File:
    """Build the document a person reads. It holds no time: the same work makes the same bytes."""
    about = material.target_contribution_id
    fields: dict[str, FieldValue] = {
        "contribution_id": str(contribution_id),
        "type": material.output_type,
        "stage": material.folder.stage,
        "iteration": job.iteration_number,
        "model": material.payload.model_name,
        **({"target_contribution_id": str(about)} if about else {}),
        **({"source_group": str(material.source_group)} if material.source_group else {}),
        "finish_reason": answer.reply.finish_reason.value,
        "incomplete": CUT_OFF in flags,
        **({"flags": list(flags)} if flags else {}),
        "tokens_input": answer.reply.usage.input_tokens,
        "tokens_output": answer.reply.usage.output_tokens,
        "usage_source": answer.reply.usage.source.value,
    }
    text = render_document(fields, answer.reply.text)
    kind = Intermediate if material.is_intermediate else ContributionFile
    return File(build_path(kind(material.folder, name)), text.encode(), records.MARKDOWN)


def build_raw(material: Material, name: ContributionName, request: Request, answer: Answer) -> File:
    """Build the record of a call: what was sent, and the provider's own record of the answer."""
    record = {
        "request": {
            "model": request.model,
            "max_output_tokens": request.max_output_tokens,
            "system": request.system,
            "messages": [{"role": m.role.value, "content": m.content} for m in request.messages],
        },
        "response": answer.reply.raw,
    }
    text = json.dumps(record, ensure_ascii=False, indent=2, sort_keys=True)
    path = build_path(RawResponse(material.folder, name))
    # Half a character, which no encoding has, stays in the record as the escape JSON knows it by.
    return File(path, text.encode(errors="backslashreplace"), "application/json")


def build_resources(
    job: Job,
    material: Material,
    name: ContributionName,
    contribution_id: UUID,
    found: dict[str, str],
) -> Iterator[NewResource]:
    """Build the documents that were cut out of an answer, and the lead's files in Pending/."""
    for expected in material.expected:
        if expected.key not in found:
            continue
        yield build_stage_document(
            expected,
            found[expected.key],
            folder=material.folder,
            name=name,
            session_id=job.session_id,
            contribution_id=contribution_id,
            model_name=material.payload.model_name,
        )
        if expected.fills_pending and material.is_lead and material.payload.edition == 1:
            yield from build_work_items(
                expected, found[expected.key], material.folder, contribution_id
            )


def build_stage_document(
    expected: ExpectedDocument,
    body: str,
    *,
    folder: StageFolder,
    name: ContributionName,
    session_id: UUID,
    contribution_id: UUID,
    model_name: str,
) -> NewResource:
    """Build one of the documents that a stage promises, as it was cut out of a contribution."""
    fields: dict[str, FieldValue] = {
        "document": expected.key,
        "title": expected.title,
        "stage": folder.stage,
        "iteration": folder.iteration,
        "model": model_name,
        "contribution_id": str(contribution_id),
    }
    return NewResource(
        resource_type="document",
        path=build_path(StageDocument(folder, name, expected.key)),
        text=render_document(fields, f"# {expected.title}\n\n{body}\n"),
        session_id=session_id,
        iteration_number=folder.iteration,
        stage_slug=folder.stage,
        source_contribution_id=contribution_id,
        document_key=expected.key,
    )


def build_work_items(
    expected: ExpectedDocument, body: str, folder: StageFolder, contribution_id: UUID
) -> Iterator[NewResource]:
    """Build the files of the agreed plan: one for each section below the document's heading."""
    level = len((expected.heading or "##").split(" ")[0]) + 1
    sections = list_sections(body, level) or [(expected.title, body)]
    prefix = f"iteration-{folder.iteration}-" if folder.iteration > 1 else ""
    for number, (title, text) in enumerate(sections, start=1):
        slug = slugify_name(f"{prefix}{number:02d} {title}", fallback=f"{prefix}{number:02d}")
        yield NewResource(
            resource_type="work_item",
            path=build_path(WorkItem(folder.project, WorkStatus.PENDING, slug)),
            text=f"# {title}\n\n{text}\n",
            source_contribution_id=contribution_id,
            document_key=expected.key,
        )


# -- plans ----------------------------------------------------------------------------------------


async def save_plan(engine: Engine, job: Job, stage: Stage, decision: Decision) -> None:
    """Save the children that are new, and let the plan job wait for what is to come."""
    step = stage.steps[job.current_step - 1]
    has_children = any(c.step_number == job.current_step for c in decision.children)
    wait = jobs.Wait(
        total_steps=len(stage.steps),
        has_children=has_children,
        on_child_failure=step.on_child_failure,
        quorum_min=step.quorum_min,
        awaits=decision.awaits,
        is_step_open=decision.is_step_open,
    )

    async def work(connection: Connection) -> None:
        await jobs.hold_plan(connection, job)
        existing = await jobs.list_children(connection, job.id)
        # One that is there stays, also if it was dealt from fewer inputs: a file has one author.
        new = [
            jobs.NewJob(
                id=child.id,
                session_id=job.session_id,
                parent_job_id=job.id,
                target_contribution_id=child.payload.target_contribution_id,
                stage_slug=job.stage_slug,
                iteration_number=job.iteration_number,
                payload=child.payload,
                max_retries=job.max_retries,
                step_number=child.step_number,
            )
            for child in decision.children
            if (child.step_number, child.payload.rank) not in existing
        ]
        await jobs.insert_jobs(connection, job.tenant_id, new)
        await jobs.wait(connection, job, wait)
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")


async def save_wait(engine: Engine, job: Job, missing: tuple[str, ...]) -> None:
    """Let a job wait for documents that others make."""
    wait = jobs.Wait(total_steps=1, has_children=False, awaits=missing)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.wait(connection, job, wait)

    await engine.db.transact(job.tenant_id, work)


async def save_seed(engine: Engine, job: Job, scene: Scene, stage: Stage) -> None:
    """Write the stage's seed prompt, unless another model's job was quicker."""
    seed = build_seed_prompt(scene, stage)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await records.put_resources(connection, job.tenant_id, scene.owner, [seed])

    await engine.db.transact(job.tenant_id, work)
    await publish_files(engine, job.tenant_id, [seed.as_file()])
