"""What a document rests on: the versions it read, and a hash of what its model was asked. Pure.

Both belong to its first turn and are known before inputs are combined or searched, so that anybody
can compute them again without a call.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from uuid import UUID

from pydantic_core import to_jsonable_python

from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import ExecutePayload, TurnPayload
from dialectic.core.strict_json import Json
from dialectic.db.queries import build_row
from dialectic.pipeline.load import JobContext

# Its key in the opening of a document's first turn.
BASIS = "basis"


@dataclass(frozen=True, slots=True)
class Source:
    """A document that another was made from, and the version of it that was read."""

    id: UUID
    version_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The inputs that a document was assigned, and the hash of its words."""

    given: tuple[Source, ...] = ()
    words_hash: str | None = None

    def as_json(self) -> Json:
        basis: Json = to_jsonable_python(self)
        return basis


UNKNOWN = Basis()


def gather_basis(context: JobContext, payload: TurnPayload, asked: object, system: str) -> Basis:
    """Gather what a document rests on; a later turn rests on what the first one read."""
    if context.chunks:
        return read_basis(context.chunks[0])
    given = payload.inputs if isinstance(payload, ExecutePayload) else ()
    texts = [context.texts[each.contribution_id] for each in given]
    sources = {text.id: Source(text.id, text.version_id) for text in texts}
    return Basis(given=tuple(sources.values()), words_hash=hash_words(asked, system))


def read_basis(first: Chunk) -> Basis:
    """Read the basis that the first turn of a document has saved; empty if it has saved none."""
    assert first.opening is not None, "the first turn keeps its prompt"
    return build_row(Basis, first.opening.get(BASIS, {}))


def hash_words(asked: object, system: str) -> str:
    """Hash what a model is asked. Ids are not part of it: equal texts ask the same."""
    words = [_drop_ids(to_jsonable_python(asked)), system]
    text = json.dumps(words, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _drop_ids(value: object) -> object:
    match value:
        case dict():
            kept = {name: item for name, item in value.items() if not name.endswith("_id")}
            return {name: _drop_ids(item) for name, item in kept.items()}
        case list():
            return [_drop_ids(item) for item in value]
        case _:
            return value
