"""Build what a turn saves: a chunk, or the document with its files and records. Pure.

The output is deterministic: it contains no timestamps and no disk paths, so the same work gives the
same bytes. `save` commits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from dialectic.core.documents.artifacts import (
    Cut,
    carry_notice,
    extract_documents,
    find_top_level,
    list_sections,
    raise_headings,
)
from dialectic.core.documents.excerpt import build_card
from dialectic.core.documents.file_paths import (
    ChunkFile,
    ContributionFile,
    ContributionName,
    Intermediate,
    RawResponse,
    StageDocument,
    StageFolder,
    WorkItem,
    WorkStatus,
    build_path,
)
from dialectic.core.documents.front_matter import render_document
from dialectic.core.documents.offline_notice import NOTICE, is_offline
from dialectic.core.documents.plan_files import (
    FOLDER_README,
    FOLDER_READMES,
    PLAN_ITEM,
    README_NAME,
)
from dialectic.core.documents.prompts import Manifest
from dialectic.core.documents.shortcomings import BEGUN_BY, MISSING
from dialectic.core.documents.stitching import Chunk, sum_usage
from dialectic.core.documents.turns import Ask, read_asked
from dialectic.core.job import Job, derive_chunk_id, derive_contribution_id
from dialectic.core.models.messages import FinishReason
from dialectic.core.process.definition import ExpectedDocument
from dialectic.core.slug import slugify_name
from dialectic.core.strict_json import Json
from dialectic.db.tables.contributions import NewChunk, NewContribution
from dialectic.db.tables.files import MARKDOWN, File
from dialectic.db.tables.records import NewResource
from dialectic.pipeline.call import Answer
from dialectic.pipeline.gather import Material
from dialectic.pipeline.interpret import Continue, Finish
from dialectic.pipeline.second_look import SUMMED

FieldValue: TypeAlias = str | int | bool | list[str] | None

REPAIRED = "repaired"
# How an answer ends that has a text.
TEXT_REASONS = frozenset({FinishReason.STOP, FinishReason.LENGTH})


@dataclass(frozen=True, slots=True)
class Written:
    """The rows and files of one turn, ready to commit."""

    chunk: NewChunk | None
    contribution: NewContribution | None
    files: tuple[File, ...]
    resources: tuple[NewResource, ...] = ()
    # The files of the agreed plan, if the document holds it.
    plan: tuple[NewResource, ...] = ()

    @property
    def stored_id(self) -> UUID:
        """The id of the row that stores this turn's answer."""
        kept = self.chunk or self.contribution
        assert kept is not None, "a turn saves a chunk or a contribution"
        return kept.id


def write(
    job: Job,
    material: Material,
    answer: Answer | None,
    outcome: Finish | Continue,
    manifest: Manifest | None = None,
) -> Written:
    """Build the output of a turn. Without an answer, the document is the earlier turns."""
    said, recorded = list(material.chunks), Written(None, None, ())
    if answer is not None:
        said, recorded = _record(job, material, answer, outcome, manifest)
    if isinstance(outcome, Continue):
        return recorded
    is_complete = not outcome.is_incomplete
    cut = extract_documents(outcome.text, material.expected, is_complete=is_complete)
    noted = [
        *outcome.flags,
        *(flag for turn in said for flag in turn.flags),
        *list_begun_by(material, said),
        *([REPAIRED] if cut.is_repaired else []),
        *(f"{MISSING}{key}" for key in cut.missing),
    ]
    flags = tuple(dict.fromkeys(noted))
    document = build_document(job, material, said, outcome, flags)
    contribution = build_contribution(job, material, document, said, outcome, flags)
    documents = build_resources(job, material, contribution.id, cut)
    plan = build_plan(
        material.expected if material.is_lead else (),
        cut.found,
        folder=material.folder,
        is_first_session=material.is_first_session,
        session_id=job.session_id,
        contribution_id=contribution.id,
    )
    return Written(
        recorded.chunk,
        contribution,
        (document, *recorded.files),
        tuple(carry_notices(outcome.text, documents)),
        tuple(carry_notices(outcome.text, plan)),
    )


def _record(
    job: Job,
    material: Material,
    answer: Answer,
    outcome: Finish | Continue,
    manifest: Manifest | None,
) -> tuple[list[Chunk], Written]:
    """Build the record of an answer, and its turn if the document has several; list all turns."""
    said = list(material.chunks)
    # A document that is cut off keeps its turn and its prompt: a person may let it go on.
    is_whole = isinstance(outcome, Finish) and not said and not outcome.is_incomplete
    turn = None if is_whole else len(said)
    raw = answer.build_record(build_path(RawResponse(material.folder, material.name, turn)))
    # A refused request for missing sections has a record, but it is not a part of the document.
    if answer.reply.finish_reason not in TEXT_REASONS:
        return said, Written(None, None, (raw,))
    asks = outcome.flags if isinstance(outcome, Continue) else ()
    new = build_said(material, answer, raw.path, manifest, is_whole=is_whole)
    said.append(replace(new, flags=(*new.flags, *asks)))
    if is_whole:
        return said, Written(None, None, (raw,))
    chunk = build_chunk(job, material, said[-1])
    return said, Written(chunk, None, (raw, chunk.file))


def build_said(
    material: Material,
    answer: Answer,
    raw_path: str,
    manifest: Manifest | None,
    *,
    is_whole: bool,
) -> Chunk:
    """Build one turn: its text, its usage and its flags.

    The first of several turns also keeps the prompt, for the turns that follow.
    """
    reply, turn = answer.reply, len(material.chunks)
    return Chunk(
        turn=turn,
        text=reply.text,
        usage=reply.usage,
        finish_reason=reply.finish_reason,
        raw_finish_reason=reply.raw_finish_reason,
        request_id=reply.request_id,
        elapsed_ms=answer.elapsed_ms,
        flags=(*material.flags, *answer.flags),
        path=build_path(ChunkFile(material.folder, material.name, turn)),
        raw_path=raw_path,
        opening=None if turn or is_whole else material.build_opening(),
        manifest=None if manifest is None else manifest.as_json(),
    )


def build_chunk(job: Job, material: Material, said: Chunk) -> NewChunk:
    """Build the record and the file of one turn of a multi-turn document."""
    chunk_id, contribution_id = (
        derive_chunk_id(job.id, turn=said.turn),
        derive_contribution_id(job.id),
    )
    fields: dict[str, FieldValue] = {
        "chunk_id": str(chunk_id),
        "contribution_id": str(contribution_id),
        "turn": said.turn,
        "model": material.payload.model_name,
        "finish_reason": said.finish_reason.value,
        **({"flags": list(said.flags)} if said.flags else {}),
        "tokens_input": said.usage.input_tokens,
        "tokens_output": said.usage.output_tokens,
        "usage_source": said.usage.source.value,
    }
    if said.turn and is_offline(material.payload.model_name):  # the notice is in the first turn
        fields = {"notice": NOTICE.removeprefix("> "), **fields}
    return NewChunk(
        id=chunk_id,
        contribution_id=contribution_id,
        model_name=material.payload.model_name,
        said=said,
        file=File(said.path, render_document(fields, said.text).encode(), MARKDOWN),
    )


def build_contribution(
    job: Job,
    material: Material,
    document: File,
    said: list[Chunk],
    outcome: Finish,
    flags: tuple[str, ...],
) -> NewContribution:
    """Build the record of a document."""
    contribution_id = derive_contribution_id(job.id)
    payload, last, usage = material.payload, said[-1], sum_usage(said)
    sources = material.sources
    card = build_card(outcome.text, material.expected, material.words.template)
    return NewContribution(
        id=contribution_id,
        model_id=payload.model_id,
        model_name=payload.model_name,
        model_index=payload.model_index,
        contribution_type=payload.output_type,
        rank=material.rank,
        origin=material.origin,
        source_group=material.source_group,
        target_contribution_id=material.target_contribution_id,
        source_contribution_ids=tuple(source.id for source in sources),
        read_version_ids=tuple(source.version_id for source in sources),
        words_hash=material.basis.words_hash,
        original_model_contribution_id=payload.replaces,
        edit_version=payload.edition,
        is_incomplete=outcome.is_incomplete,
        is_intermediate=material.is_intermediate,
        flags=flags,
        content=outcome.text,
        storage_path=document.path,
        raw_response_storage_path=last.raw_path,
        size_bytes=len(document.data),
        prompt_template_name=material.words.template_name,
        tokens_used_input=usage.input_tokens,
        tokens_used_output=usage.output_tokens,
        usage_source=usage.source,
        finish_reason=last.finish_reason,
        raw_finish_reason=last.raw_finish_reason,
        provider_request_id=last.request_id,
        processing_time_ms=sum(turn.elapsed_ms for turn in said),
        manifest=find_manifest(said),
        title=card.title,
        excerpt=card.excerpt,
        words=card.words,
    )


def build_document(
    job: Job,
    material: Material,
    said: list[Chunk],
    outcome: Finish,
    flags: tuple[str, ...],
) -> File:
    """Build the document a person reads, without timestamps, so that its bytes are reproducible."""
    about, usage = material.target_contribution_id, sum_usage(said)
    fields: dict[str, FieldValue] = {
        "contribution_id": str(derive_contribution_id(job.id)),
        "type": material.payload.output_type,
        "stage": material.folder.stage,
        "iteration": job.iteration_number,
        "model": material.payload.model_name,
        **({"seat": material.payload.model_index} if material.payload.seat_name else {}),
        **({"angle": material.words.seat} if material.words.seat else {}),
        **({"target_contribution_id": str(about)} if about else {}),
        **({"read_versions": newer} if (newer := list_newer(material)) else {}),
        **({"source_group": str(material.source_group)} if material.source_group else {}),
        **({"turns": len(said)} if len(said) > 1 else {}),
        "finish_reason": said[-1].finish_reason.value,
        "incomplete": outcome.is_incomplete,
        **({"flags": list(flags)} if flags else {}),
        **({"second_look": look} if (look := find_look_summary(flags)) else {}),
        **({"left_out": list(material.left_out)} if material.left_out else {}),
        **({"shortened": shortened} if (shortened := list_shortened(said)) else {}),
        "tokens_input": usage.input_tokens,
        "tokens_output": usage.output_tokens,
        "usage_source": usage.source.value,
    }
    text = render_document(fields, outcome.text)
    kind = Intermediate if material.is_intermediate else ContributionFile
    return File(build_path(kind(material.folder, material.name)), text.encode(), MARKDOWN)


def list_begun_by(material: Material, said: list[Chunk]) -> list[str]:
    """Flag the turns that another model wrote before it was replaced."""
    names = dict.fromkeys(turn.model_name for turn in said if turn.model_name is not None)
    return [f"{BEGUN_BY}{name}" for name in names if name != material.payload.model_name]


def find_look_summary(flags: Sequence[str]) -> str | None:
    """Find what became of what a document had lost; None if it got no second look."""
    found = [flag.removeprefix(SUMMED) for flag in flags if flag.startswith(SUMMED)]
    return found[0] if found else None


def find_manifest(said: Sequence[Chunk]) -> Json | None:
    """Find what the prompt of the last turn contained; a second look reads no inputs."""
    is_look = len(said) > 1 and read_asked(said[-2])[0] is Ask.LOOK
    return (said[-2] if is_look else said[-1]).manifest


def list_newer(material: Material) -> list[str]:
    """List the versions that the document read of inputs that were edited or regenerated."""
    return [str(one.version_id) for one in material.sources if one.version_id != one.id]


def list_shortened(said: list[Chunk]) -> list[str]:
    """List the inputs that any of the turns read in shortened form."""
    manifests = [turn.manifest for turn in said if turn.manifest is not None]
    items = [item for manifest in manifests for item in manifest["items"]]
    return list(dict.fromkeys(i["label"] for i in items if i["status"] == "compressed"))


# -- documents out of documents -------------------------------------------------------------------


def build_resources(
    job: Job, material: Material, contribution_id: UUID, cut: Cut
) -> Iterator[NewResource]:
    """Build the documents extracted from an answer."""
    for expected in material.expected:
        if expected.key in cut.found:
            yield build_stage_document(
                expected,
                cut,
                folder=material.folder,
                name=material.name,
                session_id=job.session_id,
                contribution_id=contribution_id,
                model_name=material.payload.model_name,
            )


def build_stage_document(
    expected: ExpectedDocument,
    cut: Cut,
    *,
    folder: StageFolder,
    name: ContributionName,
    session_id: UUID,
    contribution_id: UUID,
    model_name: str,
) -> NewResource:
    """Build one of a stage's expected documents, extracted from a contribution."""
    fields: dict[str, FieldValue] = {
        "document": expected.key,
        "title": expected.title,
        "stage": folder.stage,
        "iteration": folder.iteration,
        "model": model_name,
        "contribution_id": str(contribution_id),
    }
    # The title replaces the section's own heading, so raise the headings below it.
    body = cut.found[expected.key]
    if (level := cut.levels.get(expected.key)) is not None:
        body = raise_headings(body, level - 1)
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


def build_plan(
    expected: Sequence[ExpectedDocument],
    found: Mapping[str, str],
    *,
    folder: StageFolder,
    is_first_session: bool,
    session_id: UUID,
    contribution_id: UUID,
) -> Iterator[NewResource]:
    """Build the files of the agreed plan: one for each section of the documents that fill it.

    File names are unique in the project: numbers continue across all documents of an answer, and a
    prefix names the session and the iteration. Folders that the plan does not fill get a readme.
    """
    prefix = "" if is_first_session else f"session-{folder.session}-"
    prefix += f"iteration-{folder.iteration}-" if folder.iteration > 1 else ""
    filling = [one for one in expected if one.fills_pending and one.key in found]
    sections = [
        (document, title, text)
        for document in filling
        for title, text in _list_plan_sections(document, found[document.key])
    ]
    for number, (document, title, text) in enumerate(sections, start=1):
        slug = slugify_name(f"{prefix}{number:02d} {title}", fallback=f"{prefix}{number:02d}")
        yield NewResource(
            resource_type=PLAN_ITEM,
            path=build_path(WorkItem(folder.project, WorkStatus.PENDING, f"{slug}.md")),
            text=f"# {title}\n\n{text}\n",
            session_id=session_id,
            iteration_number=folder.iteration,
            stage_slug=folder.stage,
            source_contribution_id=contribution_id,
            document_key=document.key,
        )
    for status, text in FOLDER_READMES.items() if sections else ():
        path = build_path(WorkItem(folder.project, status, README_NAME))
        yield NewResource(resource_type=FOLDER_README, path=path, text=text)


def carry_notices(answer: str, made: Iterable[NewResource]) -> list[NewResource]:
    """Put the notice that an answer begins with into every document made of it."""
    return [
        one
        if one.resource_type == FOLDER_README
        else replace(one, text=carry_notice(answer, one.text))
        for one in made
    ]


def _list_plan_sections(document: ExpectedDocument, body: str) -> list[tuple[str, str]]:
    level = find_top_level(body) or 1
    sections = list_sections(body, level) or [(document.title, body)]
    return [(title, raise_headings(text, level - 1)) for title, text in sections]
