"""The record of one call: what was sent, what came back, as JSON that rebuilds both. Pure.

Version 2 holds the whole answer, before its text is cleaned, so that a session can be replayed from
its records. Version 1 has no number: it holds the request and the vendor's response, without the
text of a remote model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dialectic.core.models.messages import Reply, Request
from dialectic.core.strict_json import Json
from dialectic.errors import InvalidRecord

VERSION = 2
EARLIEST = 1
MIME_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attempt that the provider rejected as too long, with the figures that it gave."""

    had_tokens: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """A call as its record tells it. Version 1 has no answer."""

    version: int
    request: Request
    answer: Reply | None = None
    # The longer versions of this prompt that the provider rejected, in order.
    refused: tuple[Refusal, ...] = ()


def build_call_record(request: Request, reply: Reply, refused: Sequence[Refusal] = ()) -> bytes:
    """Build the record of a call. Give it the reply as the adapter returned it."""
    record: Json = {
        "record": VERSION,
        "request": asdict(request),
        "answer": _describe_answer(reply),
        **({"refused": [asdict(one) for one in refused]} if refused else {}),
        "response": reply.raw,
    }
    text = json.dumps(record, ensure_ascii=False, indent=2, sort_keys=True)
    # UTF-8 cannot encode a lone surrogate: keep it in the record as a JSON escape.
    return text.encode(errors="backslashreplace")


def _describe_answer(reply: Reply) -> Json:
    answer: Json = {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "raw_finish_reason": reply.raw_finish_reason,
        "usage": asdict(reply.usage),
        "request_id": reply.request_id,
    }
    if reply.odd_usage is not None:
        answer["odd_usage"] = list(reply.odd_usage)
    return answer


def read_call_record(data: bytes) -> CallRecord:
    """Read a record of any known version; raise `InvalidRecord` if it is not one."""
    try:
        record = json.loads(data)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise InvalidRecord("The record of the call is not a JSON object.", reason="not_json")
    version = record.get("record", EARLIEST)
    if version not in (EARLIEST, VERSION) or isinstance(version, bool):
        raise InvalidRecord(
            f"The record of the call has version {version!r}; this program reads versions "
            f"{EARLIEST} and {VERSION}. Update the program.",
            reason="unknown_version",
            subject=str(version),
        )
    if version == EARLIEST:
        return CallRecord(version=version, request=_read(Request, record, "request"))
    return CallRecord(
        version=version,
        request=_read(Request, record, "request"),
        answer=_read_answer(record),
        refused=_read(tuple[Refusal, ...], {"refused": (), **record}, "refused"),
    )


def _read_answer(record: Json) -> Reply:
    answer, raw = record.get("answer"), record.get("response")
    if isinstance(answer, dict):
        answer = {**answer, "raw": raw if isinstance(raw, dict) else {}}
    reply: Reply = _read(Reply, {"answer": answer}, "answer")
    return reply


def _read(kind: Any, record: Json, name: str) -> Any:
    try:
        return _get_adapter(kind).validate_python(record.get(name))
    except ValidationError as error:
        place = ".".join([name, *(str(part) for part in error.errors(include_url=False)[0]["loc"])])
        raise InvalidRecord(
            f"The record of the call is damaged: `{place}` is missing or has another form.",
            reason="bad_form",
            subject=place,
        ) from None


@cache
def _get_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
