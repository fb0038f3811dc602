"""Two tenants with rows in every table, and what a role can do to them.

A row is a plain mapping; the server turns it into the types of its table. Rows 1 and 2 of a table
are there from the start, row 2 is one that nothing refers to; row 3 fits in and is not there yet.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import NAMESPACE_OID, UUID, uuid5

import asyncpg

from dialectic.db.pool import Address, Connection
from dialectic.postgres import embedded

Row: TypeAlias = dict[str, Any]
HASH = "0" * 64
STAGE = "thesis"
EMBEDDER = "builtin/static"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Tenant:
    """Someone to whom rows belong; all ids follow from the name."""

    name: str

    @property
    def id(self) -> UUID:
        return uuid5(NAMESPACE_OID, self.name)

    def row_id(self, table: str, nth: int = 1) -> str:
        return str(uuid5(self.id, f"{table} {nth}"))


def _of(tenant: Tenant, table: str, nth: int, **columns: Any) -> Row:
    return {"tenant_id": str(tenant.id), "id": tenant.row_id(table, nth), **columns}


def _tenant(tenant: Tenant, nth: int) -> Row:
    return {"id": str(tenant.id), "name": tenant.name, "kind": "personal"}


def _user(tenant: Tenant, nth: int) -> Row:
    return {"id": tenant.row_id("users", nth), "name": f"{tenant.name} {nth}"}


def _membership(tenant: Tenant, nth: int) -> Row:
    user_id = tenant.row_id("users", nth)
    return {"tenant_id": str(tenant.id), "user_id": user_id, "role": "owner"}


def _wallet(tenant: Tenant, nth: int) -> Row:
    return _of(tenant, "token_wallets", nth, user_id=tenant.row_id("users", nth))


def _wallet_transaction(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "wallet_id": tenant.row_id("token_wallets"),
        "transaction_type": "top_up",
        "from_account": "grants",
        "to_account": "wallet",
        "amount_credits": 1,
        "balance_after_credits": nth,
        "idempotency_key": f"{tenant.name} {nth}",
    }


def _hold(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "hold_key": f"{tenant.name} {nth}",
        "wallet_id": tenant.row_id("token_wallets"),
        "is_play": False,
        "purpose": "call",
        "model_name": "a/1",
        "amount_credits": 1,
        "input_credits_per_token": 0.1,
        "output_credits_per_token": 0.4,
        "counted_input_tokens": 2,
        "output_cap_tokens": 2,
    }


def _spending(tenant: Tenant, nth: int) -> Row:
    session_id = tenant.row_id("dialectic_sessions", nth)
    return {"tenant_id": str(tenant.id), "session_id": session_id}


def _domain(tenant: Tenant, nth: int) -> Row:
    return _of(tenant, "dialectic_domains", nth, name=f"domain {nth}")


def _system_prompt(tenant: Tenant, nth: int) -> Row:
    words: Row = {"name": f"prompt {nth}", "content_hash": HASH, "prompt_text": "Think."}
    return _of(tenant, "system_prompts", nth, **words)


def _process(tenant: Tenant, nth: int) -> Row:
    columns: Row = {"name": f"process {nth}", "content_hash": HASH, "definition": {}}
    return _of(tenant, "dialectic_process_templates", nth, **columns)


def _stage(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_stages",
        nth,
        process_template_id=tenant.row_id("dialectic_process_templates"),
        slug=STAGE if nth == 1 else f"stage-{nth}",
        display_name="Stage",
        position=nth,
        default_system_prompt_id=tenant.row_id("system_prompts"),
        input_artifact_rules={},
        expected_output_artifacts={},
    )


def _stage_transition(tenant: Tenant, nth: int) -> Row:
    process, source, target = {1: (1, 1, 2), 2: (2, 1, 2), 3: (1, 2, 1)}[nth]
    return {
        "tenant_id": str(tenant.id),
        "process_template_id": tenant.row_id("dialectic_process_templates", process),
        "source_stage_id": tenant.row_id("dialectic_stages", source),
        "target_stage_id": tenant.row_id("dialectic_stages", target),
    }


def _domain_process(tenant: Tenant, nth: int) -> Row:
    domain, process = {1: (1, 1), 2: (1, 2), 3: (2, 1)}[nth]
    return {
        "tenant_id": str(tenant.id),
        "domain_id": tenant.row_id("dialectic_domains", domain),
        "process_template_id": tenant.row_id("dialectic_process_templates", process),
    }


def _prompt_overlay(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "domain_specific_prompt_overlays",
        nth,
        system_prompt_id=tenant.row_id("system_prompts"),
        domain_id=tenant.row_id("dialectic_domains"),
        overlay_values={},
        content_hash=str(nth) * 64,
    )


def _process_prompt(tenant: Tenant, nth: int) -> Row:
    process, prompt = {1: (1, 1), 2: (2, 1), 3: (1, 2)}[nth]
    return {
        "tenant_id": str(tenant.id),
        "process_template_id": tenant.row_id("dialectic_process_templates", process),
        "system_prompt_id": tenant.row_id("system_prompts", prompt),
    }


def _process_overlay(tenant: Tenant, nth: int) -> Row:
    process, overlay = {1: (1, 1), 2: (2, 1), 3: (1, 2)}[nth]
    return {
        "tenant_id": str(tenant.id),
        "process_template_id": tenant.row_id("dialectic_process_templates", process),
        "overlay_id": tenant.row_id("domain_specific_prompt_overlays", overlay),
    }


def _model(tenant: Tenant, nth: int) -> Row:
    columns: Row = {"api_identifier": f"a/{nth}", "provider": "a", "config": {}}
    return _of(tenant, "ai_providers", nth, **columns)


def _project(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_projects",
        nth,
        user_id=tenant.row_id("users"),
        project_name="A project",
        slug=f"project-{nth}",
        domain_id=tenant.row_id("dialectic_domains"),
        initial_user_prompt="Why?",
    )


def _session(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_sessions",
        nth,
        project_id=tenant.row_id("dialectic_projects"),
        user_id=tenant.row_id("users"),
        process_template_id=tenant.row_id("dialectic_process_templates"),
        wallet_id=tenant.row_id("token_wallets"),
        selected_model_ids=[tenant.row_id("ai_providers")],
        current_stage_slug=STAGE,
        until_stage_slug=STAGE,
        max_retries=3,
    )


def _stage_run(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "session_id": tenant.row_id("dialectic_sessions"),
        "iteration_number": nth,
        "stage_slug": STAGE,
        "planned_units": 1,
    }


def _file(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "path": f"{tenant.name}/{nth}.md",
        "project_id": tenant.row_id("dialectic_projects"),
        "mime_type": "text/markdown",
        "size_bytes": 1,
        "sha256": HASH,
        "content": "\\x61",
    }


def _discarded_file(tenant: Tenant, nth: int) -> Row:
    return {"tenant_id": str(tenant.id), "path": f"{tenant.name}-gone/{nth}.md"}


def _removal(tenant: Tenant, nth: int) -> Row:
    return _of(tenant, "dialectic_removals", nth, kind="chat", changed_in="3")


def _resource(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_project_resources",
        nth,
        project_id=tenant.row_id("dialectic_projects"),
        user_id=tenant.row_id("users"),
        resource_type="seed_prompt",
        content="a",
        storage_path=f"{tenant.name}/{nth}.md",
        mime_type="text/markdown",
        size_bytes=1,
    )


def _job(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_generation_jobs",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        stage_slug=STAGE,
        iteration_number=1,
        payload={"job_type": "plan"},
        max_retries=3,
    )


def _draft(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "job_id": tenant.row_id("dialectic_generation_jobs", nth),
        "session_id": tenant.row_id("dialectic_sessions"),
        "attempt": 1,
        "turn": 0,
        "phase": "writing",
        "text": "So far.",
    }


def _draft_watch(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "session_id": tenant.row_id("dialectic_sessions", nth),
        "watched_until": "2100-01-01T00:00:00Z",
    }


def _contribution(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_contributions",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        job_id=tenant.row_id("dialectic_generation_jobs") if nth == 1 else None,
        model_name="a/1",
        stage=STAGE,
        iteration_number=1,
        contribution_type="thesis",
        content="a",
        storage_path=f"{tenant.name}/{nth}.md",
        size_bytes=1,
    )


def _chunk(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_chunks",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        job_id=tenant.row_id("dialectic_generation_jobs"),
        root_contribution_id=tenant.row_id("dialectic_contributions"),
        turn_index=nth,
        stage=STAGE,
        iteration_number=1,
        model_name="a/1",
        content="a",
        storage_path=f"{tenant.name}/{nth}.md",
        raw_response_storage_path=f"{tenant.name}/{nth}.md",
        size_bytes=1,
        tokens_used_input=1,
        tokens_used_output=1,
        usage_source="counted",
        finish_reason="length",
        processing_time_ms=1,
    )


def _text_vectors(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_text_vectors",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        content_hash=HASH,
        embedder=f"builtin/{nth}",
        job_id=tenant.row_id("dialectic_generation_jobs"),
        attempt=1,
    )


def _provenance(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "contribution_id": tenant.row_id("dialectic_contributions"),
        "kind": "origin",
        "method": f"points/{nth}",
        "inputs_sha256": HASH,
        "report": {},
    }


def _compression(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_compressions",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        content_hash=HASH,
        purpose_hash=HASH,
        compressor="extract/1",
        tokenizer="chars:4",
        budget_tokens=nth,
        job_id=tenant.row_id("dialectic_generation_jobs"),
        attempt=1,
    )


def _share(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_shares",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        user_id=tenant.row_id("users"),
        secret_sha256="\\x" + hashlib.sha256(f"{tenant.name} share {nth}".encode()).hexdigest(),
        has_drafts=False,
        has_names=True,
        expires_at="2100-01-01T00:00:00Z",
    )


def _feedback(tenant: Tenant, nth: int) -> Row:
    return _of(
        tenant,
        "dialectic_feedback",
        nth,
        session_id=tenant.row_id("dialectic_sessions"),
        user_id=tenant.row_id("users"),
        stage_slug=STAGE,
        iteration_number=1,
        feedback_type="stage",
    )


def _memory_source(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "source_id": tenant.row_id("dialectic_memory_sources", nth),
        "embedding_model": EMBEDDER,
        "project_id": tenant.row_id("dialectic_projects"),
        "session_id": tenant.row_id("dialectic_sessions"),
        "source_hash": HASH,
        "dimensions": 3,
        "piece_count": 3,
    }


def _memory(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "project_id": tenant.row_id("dialectic_projects"),
        "source_id": tenant.row_id("dialectic_memory_sources"),
        "embedding_model": EMBEDDER,
        "position": nth,
        "start_offset": nth,
        "end_offset": nth + 1,
        "heading_path": [],
        "content": "a",
        "token_count": 1,
        "content_hash": HASH,
        "dimensions": 3,
        "embedding": "[1,2,3]",
        "is_graphed": False,
        "fts": "'word':1",
        "word_count": 1,
    }


def _memory_word(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "project_id": tenant.row_id("dialectic_projects"),
        "embedding_model": EMBEDDER,
        "lexeme": f"word{nth}",
        "source_id": tenant.row_id("dialectic_memory_sources"),
        "part": 0,
        "memory_ids": [nth],
        "counts": [1],
        "word_counts": [1],
    }


def _endpoint(tenant: Tenant, nth: int) -> Row:
    definition = {"kind": "openai", "base_url": "https://llm.example.org/v1", "models": {}}
    return {"tenant_id": str(tenant.id), "name": f"own-{nth}", "definition": definition}


def _chat(tenant: Tenant, nth: int) -> Row:
    return _of(tenant, "chats", nth, user_id=tenant.row_id("users"), title="A chat")


def _chat_message(tenant: Tenant, nth: int) -> Row:
    columns: Row = {"chat_id": tenant.row_id("chats"), "role": "user", "content": "Why?"}
    return _of(tenant, "chat_messages", nth, **columns)


def _notification(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "session_id": tenant.row_id("dialectic_sessions"),
        "type": "news",
        "title": f"{tenant.name} {nth}",
    }


def _notification_counter(tenant: Tenant, nth: int) -> Row:
    return {"tenant_id": str(tenant.id), "last_seq": 0}


def _access_token(tenant: Tenant, nth: int) -> Row:
    secret = tenant.row_id("access_tokens", nth).encode()
    return _of(
        tenant,
        "access_tokens",
        nth,
        user_id=tenant.row_id("users"),
        kind="api",
        name=f"token {nth}",
        secret_sha256=f"\\x{hashlib.sha256(secret).hexdigest()}",
        scopes=["read"],
        expires_at="2100-01-01",
    )


def _idempotency_key(tenant: Tenant, nth: int) -> Row:
    return {
        "tenant_id": str(tenant.id),
        "user_id": tenant.row_id("users"),
        "key": f"key {nth}",
        "request_sha256": f"\\x{HASH}",
        "effect_id": tenant.row_id("idempotency_keys", nth),
    }


@dataclass(frozen=True, slots=True)
class Table:
    """A table of tenant data: how its rows are made and by what one of them is found."""

    build_row: Callable[[Tenant, int], Row]
    key: tuple[str, ...] = ("tenant_id", "id")
    tenant_column: str = "tenant_id"
    seeded: int = 2


# In the order in which rows can be inserted.
TABLES = {
    "tenants": Table(_tenant, key=("id",), tenant_column="id", seeded=1),
    "users": Table(_user, key=("id",), tenant_column="", seeded=3),
    "memberships": Table(_membership, key=("tenant_id", "user_id"), seeded=3),
    "access_tokens": Table(_access_token),
    "idempotency_keys": Table(_idempotency_key, key=("tenant_id", "user_id", "key")),
    "token_wallets": Table(_wallet),
    "token_wallet_transactions": Table(
        _wallet_transaction, key=("tenant_id", "wallet_id", "idempotency_key")
    ),
    "token_wallet_holds": Table(_hold, key=("tenant_id", "hold_key")),
    "dialectic_session_spending": Table(_spending, key=("tenant_id", "session_id")),
    "dialectic_domains": Table(_domain),
    "system_prompts": Table(_system_prompt),
    "dialectic_process_templates": Table(_process),
    "dialectic_stages": Table(_stage),
    "dialectic_stage_transitions": Table(
        _stage_transition,
        key=("tenant_id", "process_template_id", "source_stage_id", "target_stage_id"),
    ),
    "domain_process_associations": Table(
        _domain_process, key=("tenant_id", "domain_id", "process_template_id")
    ),
    "domain_specific_prompt_overlays": Table(_prompt_overlay),
    "dialectic_process_prompts": Table(
        _process_prompt, key=("tenant_id", "process_template_id", "system_prompt_id")
    ),
    "dialectic_process_overlays": Table(
        _process_overlay, key=("tenant_id", "process_template_id", "overlay_id")
    ),
    "ai_providers": Table(_model),
    "dialectic_projects": Table(_project),
    "dialectic_sessions": Table(_session),
    "dialectic_stage_runs": Table(
        _stage_run, key=("tenant_id", "session_id", "iteration_number", "stage_slug")
    ),
    "dialectic_files": Table(_file, key=("tenant_id", "path")),
    "dialectic_discarded_files": Table(_discarded_file, key=("tenant_id", "path")),
    "dialectic_project_resources": Table(_resource),
    "dialectic_generation_jobs": Table(_job),
    "dialectic_drafts": Table(_draft, key=("tenant_id", "job_id")),
    "dialectic_draft_watches": Table(_draft_watch, key=("tenant_id", "session_id")),
    "dialectic_contributions": Table(_contribution),
    "dialectic_chunks": Table(_chunk),
    "dialectic_text_vectors": Table(_text_vectors),
    "dialectic_compressions": Table(_compression),
    "dialectic_feedback": Table(_feedback),
    "dialectic_shares": Table(_share),
    "dialectic_provenance": Table(
        _provenance, key=("tenant_id", "contribution_id", "kind", "method", "inputs_sha256")
    ),
    "dialectic_memory_sources": Table(
        _memory_source, key=("tenant_id", "source_id", "embedding_model")
    ),
    "dialectic_memory_pieces": Table(_memory, key=("tenant_id", "source_id", "position")),
    "dialectic_memory_words": Table(_memory_word, key=("tenant_id", "source_id", "lexeme")),
    "tenant_endpoints": Table(_endpoint, key=("tenant_id", "name")),
    "chats": Table(_chat),
    "chat_messages": Table(_chat_message),
    "notifications": Table(_notification, key=("tenant_id", "title")),
    "dialectic_removals": Table(_removal, key=("tenant_id", "kind", "id")),
    "notification_counters": Table(_notification_counter, key=("tenant_id",), seeded=1),
}


def build_row(table: str, tenant: Tenant, nth: int) -> Row:
    return TABLES[table].build_row(tenant, nth)


async def insert_row(connection: Connection, table: str, row: Row) -> str:
    """Insert a row; return what the server says, `INSERT 0 1`."""
    columns = ", ".join(row)
    return await connection.execute(
        f"insert into dialectic.{table} ({columns})"
        f" select {columns} from jsonb_populate_record(null::dialectic.{table}, $1::text::jsonb)",
        json.dumps(row),
    )


async def insert_tenant(connection: Connection, tenant: Tenant) -> None:
    """Insert all rows of a tenant that are there from the start."""
    for name, table in TABLES.items():
        for nth in range(1, table.seeded + 1):
            await insert_row(connection, name, table.build_row(tenant, nth))


def _matching(table: str) -> str:
    """The source that holds the wanted row as `r`, and the condition that `t` is that row."""
    same = " and ".join(f"t.{column} = r.{column}" for column in TABLES[table].key)
    return f"jsonb_populate_record(null::dialectic.{table}, $1::text::jsonb) r where {same}"


async def select_row(connection: Connection, table: str, row: Row) -> str:
    return await connection.execute(
        f"select from dialectic.{table} t, {_matching(table)}", json.dumps(row)
    )


async def update_row(
    connection: Connection, table: str, row: Row, new_owner: Tenant | None = None
) -> str:
    """Write a row as it is, or give it to someone else."""
    column = TABLES[table].tenant_column or "id"
    value = f"'{new_owner.id}'" if new_owner else f"t.{column}"
    return await connection.execute(
        f"update dialectic.{table} t set {column} = {value} from {_matching(table)}",
        json.dumps(row),
    )


async def delete_row(connection: Connection, table: str, row: Row) -> str:
    return await connection.execute(
        f"delete from dialectic.{table} t using {_matching(table)}", json.dumps(row)
    )


async def become(connection: Connection, tenant: Tenant | None) -> None:
    """Let the current transaction belong to a tenant, or to none."""
    if tenant is not None:
        await connection.execute("select set_config('dialectic.tenant', $1, true)", str(tenant.id))


async def create_database(
    server: embedded.Server, template: str = "template1", *, options: str = ""
) -> Address:
    """Create a database, empty or as a copy; the server's end is its end."""
    name = f"rows_{os.getpid()}_{next(_numbers)}"
    url = server.url(user="postgres", database=name)
    create = f"create database {name} template {template} {options}"
    await run_as_superuser(server.url(user="postgres", database="postgres"), create)
    return Address(url, is_embedded=True)


async def run_as_superuser(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
