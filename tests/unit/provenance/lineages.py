"""Small lineages to try alignment on: theses, critiques, and editors of the standard process."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from dialectic.core.points import SourceKind
from dialectic.core.process.definition import Process, Step
from dialectic.processes.loader import load_process
from dialectic.provenance.align import Alignment
from dialectic.provenance.chain import Chains
from dialectic.provenance.points import build_sections
from dialectic.provenance.texts import Role, Text, build_lineage

SPACE = UUID("5f1bde5e-3c0e-4f0e-8c0e-0a4a6b7d2c11")
STANDARD: Process = load_process("standard")
_ROLES = {"thesis": Role.THESIS, "antithesis": Role.CRITIQUE}


def get_id(name: str) -> UUID:
    return uuid5(SPACE, name)


def write(
    name: str,
    type_: str,
    content: str,
    *reads: str,
    seat: int = 1,
    labels: Mapping[str, str] | None = None,
) -> Text:
    """Write a document of the standard process; it has read others by their names."""
    stage, part = next(
        (stage, part)
        for stage in STANDARD.order
        for part in stage.parts
        if part.output_type == type_
    )
    return Text(
        id=get_id(name),
        content=content,
        role=_ROLES.get(type_, Role.EDITOR),
        stage=stage.slug,
        step=part.name if isinstance(part, Step) else "",
        type=type_,
        model_index=seat,
        is_lead=seat == 1,
        is_final=type_ == stage.output_type,
        label=name,
        sources=tuple(map(get_id, reads)),
        labels={label: get_id(one) for label, one in (labels or {}).items()},
        sections=build_sections(stage, type_),
    )


def ask(content: str) -> Text:
    """Write the request; it is called `request`."""
    return Text(id=get_id("request"), content=content, kind=SourceKind.REQUEST, role=Role.GIVEN)


def chain(*texts: Text) -> Chains:
    return Chains(Alignment(build_lineage(texts)))


def place(chains: Chains, name: str) -> int:
    found = chains.lineage.find(get_id(name))
    assert found is not None
    return found
