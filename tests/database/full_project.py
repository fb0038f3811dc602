"""A project with something in every corner: turns, critiques, drafts, edits, feedback."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.documents.file_paths import (
    ChunkFile,
    ContributionFile,
    ContributionName,
    GeneralResource,
    InitialPrompt,
    Intermediate,
    Place,
    RawResponse,
    Relation,
    ResourceKind,
    SeedPrompt,
    ShorteningRecord,
    StageDocument,
    StageFolder,
    UserFeedback,
    WorkItem,
    WorkStatus,
    build_path,
)
from dialectic.core.documents.front_matter import render_document
from dialectic.core.slug import short_id
from dialectic.db.pool import Connection
from dialectic.db.tables import records
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.processes.loader import load_process
from dialectic.publishing.publish import publish_project
from tests.database.tenant_rows import Row, insert_row

NAME = "Bäckerei & Co. [draft] <today>"
SLUG = "backerei"
PROMPT = "Sell what is left at closing time.\n\n# Not a heading of ours\n"
MODELS = ("offline/architect", "offline/skeptic")
# Random by the roll of a die, and the same for every test.
SPACE = UUID("c0ffee00-0000-4000-8000-000000000001")
THESIS = "2026-05-01T10:00:00+00:00"


@dataclass
class Project:
    """The ids of what was made, and the rows that are still to be inserted."""

    account: Account
    id: UUID = field(default_factory=lambda: uuid5(SPACE, "project"))
    models: dict[str, UUID] = field(default_factory=dict)
    files: list[Row] = field(default_factory=list)
    contributions: list[Row] = field(default_factory=list)
    chunks: list[Row] = field(default_factory=list)
    resources: list[Row] = field(default_factory=list)

    @property
    def session_id(self) -> UUID:
        return uuid5(SPACE, "session 1")

    @property
    def second_session_id(self) -> UUID:
        return uuid5(SPACE, "session 2")

    def folder(self, stage: str, iteration: int = 1) -> StageFolder:
        position = {"thesis": 1, "antithesis": 2, "synthesis": 3}[stage]
        return StageFolder(SLUG, short_id(self.session_id), iteration, position, stage)

    def add_file(self, place: Place, data: bytes, mime_type: str = "text/markdown") -> str:
        path = build_path(place)
        self.files.append(
            {
                "tenant_id": str(self.account.tenant_id),
                "path": path,
                "project_id": str(self.id),
                "mime_type": mime_type,
                "size_bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "content": f"\\x{data.hex()}",
            }
        )
        return path

    def add_resource(self, kind: str, place: Place, text: str, **columns: Any) -> None:
        path = self.add_file(place, text.encode())
        self.resources.append(
            {
                "tenant_id": str(self.account.tenant_id),
                "id": str(uuid5(self.id, path)),
                "project_id": str(self.id),
                "user_id": str(self.account.user_id),
                "resource_type": kind,
                "content": text,
                "storage_path": path,
                "mime_type": "text/markdown",
                "size_bytes": len(text.encode()),
                "notes": ["a note"],
                "created_at": THESIS,
                **columns,
            }
        )

    def add_contribution(
        self, key: str, place: Place, text: str, *, model: str = MODELS[0], **columns: Any
    ) -> UUID:
        contribution_id = uuid5(SPACE, f"contribution {key}")
        document = render_document({"contribution_id": str(contribution_id)}, text)
        path = self.add_file(place, document.encode())
        row: Row = {
            "tenant_id": str(self.account.tenant_id),
            "id": str(contribution_id),
            "session_id": str(self.session_id),
            "model_id": str(self.models[model]),
            "model_name": model,
            "stage": place.folder.stage,  # type: ignore[union-attr]
            "iteration_number": place.folder.iteration,  # type: ignore[union-attr]
            "contribution_type": place.contribution.contribution_type,  # type: ignore[union-attr]
            "title": key,
            "excerpt": "What follows.",
            "words": len(text.split()),
            "content": text,
            "storage_path": path,
            "size_bytes": len(document.encode()),
            "prompt_template_name": "thesis",
            "tokens_used_input": 12,
            "tokens_used_output": 34,
            "usage_source": "reported",
            "finish_reason": "stop",
            "raw_finish_reason": "end_turn",
            "provider_request_id": "request 7",
            "processing_time_ms": 5,
            "model_index": MODELS.index(model) + 1,
            "rank": 1,
            "origin": 1,
            "created_at": "2026-05-01T10:00:01.25+00:00",
            "is_intermediate": False,
            "is_incomplete": False,
            "is_stale": False,
            "flags": [],
            "mime_type": "text/markdown",
            "edit_version": 1,
            "is_latest_edit": True,
            "source_contribution_ids": [],
            "read_version_ids": [],
            "words_hash": None if "user_id" in columns else "5e" * 32,
            **{name: str(v) if isinstance(v, UUID) else v for name, v in columns.items()},
        }
        self.contributions.append(row)
        return contribution_id

    def add_chunk(self, key: str, place: ChunkFile, text: str) -> str:
        """One turn of a contribution; returns where its raw answer stands."""
        chunk_id = uuid5(SPACE, f"chunk {key} {place.turn}")
        document = render_document({"chunk_id": str(chunk_id)}, text).encode()
        raw_place = RawResponse(place.folder, place.contribution, place.turn)
        raw = self.add_file(raw_place, b'{"id": "r"}', "application/json")
        self.chunks.append(
            {
                "tenant_id": str(self.account.tenant_id),
                "id": str(chunk_id),
                "session_id": str(self.session_id),
                "root_contribution_id": str(uuid5(SPACE, f"contribution {key}")),
                "turn_index": place.turn,
                "stage": place.folder.stage,
                "iteration_number": place.folder.iteration,
                "model_name": MODELS[1],
                "content": text,
                "storage_path": self.add_file(place, document),
                "raw_response_storage_path": raw,
                "mime_type": "text/markdown",
                "size_bytes": len(document),
                "tokens_used_input": 12,
                "tokens_used_output": 3,
                "usage_source": "counted",
                "finish_reason": "length",
                "raw_finish_reason": "max_tokens",
                "provider_request_id": "request 8",
                "processing_time_ms": 6,
                "flags": ["cleaned: a note"],
                "created_at": "2026-05-01T10:00:01+00:00",
            }
        )
        return raw


async def make_project(
    engine: Engine, admin: Any, account: Account, *, in_flight: bool = False
) -> Project:
    """Make the project; half of its files are in storage, the others wait in their rows."""
    made = Project(account)

    async def share(connection: Connection) -> tuple[UUID, UUID]:
        domain_id = await records.upsert_domain(connection, account.tenant_id, "General")
        process = load_process("standard")
        process_id = await records.pin_process(connection, account.tenant_id, process)
        for name in MODELS:
            card = engine.catalog.load_card(name)
            made.models[name] = await records.upsert_model(connection, account.tenant_id, card)
        return domain_id, process_id

    domain_id, process_id = await engine.db.transact(account.tenant_id, share)
    _add_texts(made)
    early = made.files[: len(made.files) // 2]
    async with admin.transaction():
        await _insert_project(admin, made, domain_id)
        await _insert_sessions(admin, made, process_id, in_flight=in_flight)
        for row in early:
            await insert_row(admin, "dialectic_files", row)
    await publish_project(engine, account.tenant_id, made.id)
    async with admin.transaction():
        for row in made.files[len(early) :]:
            await insert_row(admin, "dialectic_files", row)
        for row in made.contributions:
            await insert_row(admin, "dialectic_contributions", row)
        for row in made.chunks:
            await insert_row(admin, "dialectic_chunks", row)
        for row in made.resources:
            await insert_row(admin, "dialectic_project_resources", row)
        await _insert_feedback(admin, made)
    return made


def _add_texts(made: Project) -> None:
    thesis, antithesis, synthesis = (
        made.folder(stage) for stage in ("thesis", "antithesis", "synthesis")
    )
    made.add_resource("initial_user_prompt", InitialPrompt(SLUG, "the-prompt"), PROMPT)
    limits = GeneralResource(SLUG, ResourceKind.CONSTRAINT_BOUNDARIES, "limits", "txt")
    made.add_resource("constraint_boundaries", limits, "---\nhalf: a front matter\n")
    of_stage = {"session_id": str(made.session_id), "iteration_number": 1, "stage_slug": "thesis"}
    made.add_resource("seed_prompt", SeedPrompt(thesis), "Write a thesis.", **of_stage)
    made.add_resource("user_feedback", UserFeedback(thesis), "Shorter, please.", **of_stage)
    made.add_file(WorkItem(SLUG, WorkStatus.PENDING, "1-first-milestone.md"), b"- [ ] begin\n")

    plain = ContributionName("offline-architect", 1, "thesis")
    raw = made.add_file(RawResponse(thesis, plain), b'{"id": "r"}', "application/json")
    first = made.add_contribution(
        "thesis 1",
        ContributionFile(thesis, plain),
        "# Bread\n\nSell it.\n",
        raw_response_storage_path=raw,
        is_latest_edit=False,
    )
    short = ShorteningRecord(thesis, "5e5e5e5e")
    made.add_file(short, b'{"record": 2}', "application/json")
    edit = made.add_contribution(
        "thesis 1, edited",
        ContributionFile(thesis, replace(plain, version=2)),
        "# Bread\n\nSell it cheaply.\n",
        user_id=made.account.user_id,
        edit_version=2,
        original_model_contribution_id=first,
    )
    made.add_resource(
        "document",
        StageDocument(thesis, plain, "business_case"),
        "Money.",
        **of_stage,
        source_contribution_id=str(first),
        document_key="business_case",
    )
    _add_cut_answer(made, thesis)
    critique = made.add_contribution(
        "critique",
        ContributionFile(
            antithesis,
            ContributionName(
                "offline-skeptic", 1, "antithesis", Relation("about", ("offline-architect",))
            ),
        ),
        "Nobody buys old bread.",
        model=MODELS[1],
        target_contribution_id=first,
        source_group=first,
        source_contribution_ids=[str(first)],
        read_version_ids=[str(edit)],
        flags=["self_critique"],
    )
    sources = Relation("from", ("offline-architect", "offline-skeptic"))
    draft = ContributionName("offline-skeptic", 1, "pairwise_synthesis_chunk", sources)
    pair = made.add_contribution(
        "pair",
        Intermediate(synthesis, draft),
        "Both.",
        model=MODELS[1],
        is_intermediate=True,
        source_group=first,
        source_contribution_ids=[str(first), str(critique)],
    )
    reduced = ContributionName(
        "offline-skeptic", 1, "reduced_synthesis", Relation("reducing", (short_id(first),))
    )
    made.add_contribution(
        "reduced",
        Intermediate(synthesis, reduced),
        "Less.",
        model=MODELS[1],
        is_intermediate=True,
        is_stale=True,
        source_group=first,
        source_contribution_ids=[str(pair)],
    )
    # Its row says something else than its file.
    made.contributions[-1]["content"] = "Less, as the row has it: ünïcode \u2028 and \\u0000."


def _add_cut_answer(made: Project, thesis: StageFolder) -> None:
    """A document of two turns, and one that was never finished."""
    name = ContributionName("offline-skeptic", 1, "thesis")
    made.add_chunk("cut", ChunkFile(thesis, name, 0), "Half a ")
    raw = made.add_chunk("cut", ChunkFile(thesis, name, 1), "thesis.")
    made.add_contribution(
        "cut",
        ContributionFile(thesis, name),
        "Half a thesis.",
        model=MODELS[1],
        raw_response_storage_path=raw,
    )
    never = ContributionName("offline-skeptic", 2, "thesis")
    made.add_chunk("never finished", ChunkFile(thesis, never, 0), "Half of ano")


async def _insert_project(admin: Any, made: Project, domain_id: UUID) -> None:
    row: Row = {
        "tenant_id": str(made.account.tenant_id),
        "id": str(made.id),
        "user_id": str(made.account.user_id),
        "project_name": NAME,
        "slug": SLUG,
        "domain_id": str(domain_id),
        "user_domain_overlay_values": {"tone": "plain"},
        "initial_user_prompt": PROMPT,
        "status": "active",
        "created_at": "2026-05-01T09:59:59.123456+00:00",
    }
    await insert_row(admin, "dialectic_projects", row)


async def _insert_sessions(admin: Any, made: Project, process_id: UUID, *, in_flight: bool) -> None:
    common: Row = {
        "tenant_id": str(made.account.tenant_id),
        "project_id": str(made.id),
        "user_id": str(made.account.user_id),
        "process_template_id": str(process_id),
        "wallet_id": str(made.account.wallet_id),
        "session_description": "the first try",
        "selected_model_ids": [str(model_id) for model_id in made.models.values()],
        "dropped_seats": [],
        "lead_model_index": 2,
        "until_stage_slug": "paralysis",
        "max_retries": 3,
        "max_output_tokens": 4000,
        "is_autopilot": False,
        "continue_until_complete": True,
        "wait_for_all": False,
    }
    first: Row = {
        "id": str(made.session_id),
        "current_stage_slug": "thesis" if in_flight else "synthesis",
        "iteration_count": 2 if in_flight else 1,
        "phase": "pending" if in_flight else "stage_complete",
        "idempotency_key": "somebody's key",
        "created_at": "2026-05-01T10:00:00+00:00",
    }
    second: Row = {
        "id": str(made.second_session_id),
        "current_stage_slug": "thesis",
        "iteration_count": 1,
        "created_at": "2026-05-02T10:00:00+00:00",
    }
    for row in (first, second):
        await insert_row(admin, "dialectic_sessions", {**common, **row})
    if in_flight:
        for name in ("mark_generating", "pause_session"):
            await admin.execute(records.SQL[name], made.session_id)
    for nth, stage in enumerate(("thesis", "antithesis", "synthesis")):
        await insert_row(admin, "dialectic_stage_runs", _run(made, stage, 1, nth))
    if in_flight:
        row = {**_run(made, "thesis", 2, 3), "status": "generating", "completed_at": None}
        await insert_row(admin, "dialectic_stage_runs", row)
        waiting = {"status": "waiting", "started_at": None, "completed_at": None}
        row = {**_run(made, "antithesis", 2, 3), **waiting}
        await insert_row(admin, "dialectic_stage_runs", row)


def _run(made: Project, stage: str, iteration: int, nth: int) -> Row:
    return {
        "tenant_id": str(made.account.tenant_id),
        "session_id": str(made.session_id),
        "iteration_number": iteration,
        "stage_slug": stage,
        "position": 1 + ("thesis", "antithesis", "synthesis").index(stage),
        "is_last": False,
        "status": "complete",
        "planned_units": 4,
        "finished_units": 3,
        "seats": [1, 2],
        "lost_seats": [],
        "started_at": f"2026-05-01T1{nth}:00:00+00:00",
        "completed_at": f"2026-05-01T1{nth}:30:00+00:00",
    }


async def _insert_feedback(admin: Any, made: Project) -> None:
    said: list[Row] = [
        {"feedback_type": "stage", "content": "Shorter, please."},
        {"feedback_type": "rating", "content": "", "rating": 4},
        {
            "feedback_type": "ruling",
            "content": "",
            "subject_id": str(uuid5(SPACE, "claim")),
            "subject": "Bread for all.",
            "verdict": "drop",
            "position_id": str(uuid5(SPACE, "position")),
            "upheld": "Ten loaves.",
            "rejected": ["Bread for all."],
            "created_at": "2026-05-01T12:00:00+00:00",
            "withdrawn_at": "2026-05-02T11:00:00+00:00",
        },
    ]
    for nth, columns in enumerate(said):
        row: Row = {
            "tenant_id": str(made.account.tenant_id),
            "id": str(uuid5(SPACE, f"feedback {nth}")),
            "session_id": str(made.session_id),
            "user_id": str(made.account.user_id),
            "stage_slug": "thesis",
            "iteration_number": 1,
            "target_contribution_id": made.contributions[0]["id"] if "rating" in columns else None,
            "created_at": "2026-05-01T11:00:00+00:00",
            **columns,
        }
        await insert_row(admin, "dialectic_feedback", row)
