"""What is installed here: the models and the processes that a session can use. No database."""

from __future__ import annotations

from pathlib import Path

from dialectic.contract.accounts import (
    KnownModel,
    ListedModel,
    Model,
    ProcessDetail,
    ProcessSummary,
)
from dialectic.core.process.definition import Process
from dialectic.processes import loader
from dialectic.processes.loader import Listed
from dialectic.providers.catalog import Catalog
from dialectic.providers.model_list import Row, build_listing, build_snippet, load_cached_models


def list_models(catalog: Catalog, home: Path) -> list[Model]:
    """List the known models, their prices, and what is missing to use them."""
    return [describe_model(row) for row in build_listing(catalog, load_cached_models(home))]


def describe_model(row: Row) -> Model:
    """Describe one model of the list."""
    state = {
        "name": row.name,
        "state": row.state.name.lower(),
        "is_usable": row.state.is_usable,
        "note": row.note,
    }
    if row.card is None:
        return ListedModel.model_validate(
            {**state, "origin": "listed", "config": build_snippet(row)}
        )
    facts = {name: getattr(row.card, name) for name in FACTS}
    return KnownModel.model_validate({**facts, **state, "origin": str(row.origin)})


FACTS = (
    "facts_of", "context_window_tokens", "max_input_tokens", "max_output_tokens",
    "input_credits_per_token", "output_credits_per_token", "tokenizer", "is_reasoning",
    "supports_system_prompt",
)  # fmt: skip


def list_processes(own: Path) -> list[ProcessSummary]:
    """List the processes that have a name; a broken one says why, the others are complete."""
    return [_describe_listed(one) for one in loader.list_processes(own)]


def list_domains(own: Path) -> list[str]:
    """List the domains of the processes that have a name."""
    names = [name for one in list_processes(own) for name in one.domains]
    return list(dict.fromkeys(names))


def _describe_listed(one: Listed) -> ProcessSummary:
    if isinstance(one.found, Process):
        return describe_process(one.found, is_shipped=one.folder is None)
    return ProcessSummary(
        name=one.name,
        title="",
        description="",
        domains=[],
        stages=[],
        is_shipped=one.folder is None,
        problem=one.found.message,
    )


def describe_process(process: Process, *, is_shipped: bool) -> ProcessDetail:
    """Describe a process with its definition and prompts."""
    return ProcessDetail(
        name=process.name,
        title=process.file.title,
        description=process.file.description,
        domains=list(process.file.domains),
        stages=[stage.slug for stage in process.order],
        is_shipped=is_shipped,
        problem=None,
        content_hash=process.content_hash,
        definition=process.as_definition(),
    )
