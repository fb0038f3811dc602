"""A response as it arrives: text, end, usage, vendor record. Knows no wire format or socket.

A draft becomes a reply once it has a finish reason; if the call fails first, it becomes a partial
response. The provider's token counts are kept as reported, plausible or not. If the provider
reports no numbers, the tokens are counted here.
"""

from __future__ import annotations

import json

from dialectic.core.access import Secret
from dialectic.core.models.messages import FinishReason, Reply, Request, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.core.strict_json import JsonObject, MalformedJson, find_count, find_text
from dialectic.errors import PartialResponse
from dialectic.providers.base import OnText
from dialectic.providers.error_taxonomy import clean_record, redact
from dialectic.providers.finish_reasons import Vendor, read_finish
from dialectic.tokens.counting import count_request_tokens, get_counter

TEXT_CHARS_MAX = 16 << 20
RECORD_CHARS_MAX = 64_000
WORD_CHARS_MAX = 100
ID_CHARS_MAX = 200

_ALWAYS_KEPT = ("id", "responseId", "model", "modelVersion", "finish_reason", "usage")


class ResponseBuilder:
    """The part of a response that has arrived."""

    def __init__(
        self, card: ModelCard, request: Request, on_text: OnText, key: Secret | None
    ) -> None:
        self._card = card
        self._request = request
        self._on_text = on_text
        self._key = key
        self._pieces: list[str] = []
        self._chars = 0
        self._raw_finish: object = None
        self._finish: FinishReason | None = None
        # Input and output tokens, once both were reported as numbers.
        self.reported_usage: tuple[int, int] | None = None
        self._odd_usage: tuple[object, object] | None = None
        # The vendor's metadata about the response, without the text.
        self.record: dict[str, object] = {}
        self.request_id: str | None = None

    @property
    def has_text(self) -> bool:
        return self._chars > 0

    @property
    def has_ended(self) -> bool:
        return self._finish is not None

    def write(self, piece: str) -> None:
        """Add text."""
        if not piece:
            return
        if self.has_ended:
            raise MalformedJson("text came after the response had ended", piece)
        self._chars += len(piece)
        if self._chars > TEXT_CHARS_MAX:
            raise MalformedJson(f"the response is longer than {TEXT_CHARS_MAX} characters")
        self._pieces.append(piece)
        self._on_text(piece)

    def end(self, vendor: Vendor, raw: object) -> None:
        """Record the finish reason. Repeating it changes nothing."""
        if not self.has_ended:
            self._raw_finish = raw
            self._finish = read_finish(vendor, raw)

    def overrule(self, finish: FinishReason, raw: object) -> None:
        """Override the vendor's finish reason because of what the response contains."""
        self._finish, self._raw_finish = finish, raw

    def report(self, input_tokens: object, output_tokens: object) -> None:
        """Record the provider's token counts, if both are numbers; the latest win."""
        read, written = find_count(input_tokens), find_count(output_tokens)
        self.reported_usage = None if read is None or written is None else (read, written)
        said = (input_tokens, output_tokens)
        is_odd = self.reported_usage is None and said != (None, None)
        self._odd_usage = said if is_odd else None

    def note(self, facts: JsonObject) -> None:
        """Record the vendor's metadata; later values win."""
        self.record.update({name: fact for name, fact in facts.items() if fact is not None})

    def check_id(self, name: str, value: object) -> None:
        """Reject a stream that mixes two responses."""
        if isinstance(value, str) and value and self.record.setdefault(name, value) != value:
            raise MalformedJson("the stream mixes two responses", value)

    def build_reply(self) -> Reply:
        """Build the reply of a finished response, even an empty one."""
        assert self._finish is not None, "only a finished response is a reply"
        text = _join_halves("".join(self._pieces))
        return Reply(
            text=redact(self._key, text),
            finish_reason=self._finish,
            raw_finish_reason=_as_word(self._key, self._raw_finish),
            usage=self._build_usage(text),
            request_id=self._find_id(),
            raw=self._build_record(),
            odd_usage=self._clean_odd_usage(),
        )

    def build_remains(self, **shown: object) -> PartialResponse:
        """Build the partial response of a failed call, with its error."""
        return PartialResponse(
            was_sent=True,
            partial_text=redact(self._key, "".join(self._pieces)),
            reported_usage=self.reported_usage,
            request_id=self._find_id(),
            raw=self._build_record(**shown) or None,
        )

    def _find_id(self) -> str | None:
        # Some servers send no request id in a header; the response itself has an id.
        own = find_text(self.record.get("id") or self.record.get("responseId"))
        return self.request_id or (own and redact(self._key, own)[:ID_CHARS_MAX])

    def _build_usage(self, text: str) -> Usage:
        if self.reported_usage is not None:
            return Usage(*self.reported_usage, UsageSource.REPORTED)
        return Usage(
            count_request_tokens(self._request, self._card).tokens,
            get_counter(self._card.tokenizer)(text),
            UsageSource.COUNTED,
        )

    def _clean_odd_usage(self) -> tuple[object, object] | None:
        if self._odd_usage is None:
            return None
        read, written = self._odd_usage
        clean = clean_record(self._key, {"read": read, "written": written})
        return clean["read"], clean["written"]

    def _build_record(self, **shown: object) -> JsonObject:
        record = clean_record(self._key, self.record | shown)
        if len(json.dumps(record)) <= RECORD_CHARS_MAX:
            return record
        kept = {name: record[name] for name in _ALWAYS_KEPT if name in record}
        fits = len(json.dumps(kept)) <= RECORD_CHARS_MAX
        return (kept if fits else {}) | {"shortened": True}


def _join_halves(text: str) -> str:
    """Join the halves of a character that two events had split."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def _as_word(key: Secret | None, raw: object) -> str | None:
    """Name a finish reason as it came; name a value that is not a string by its type."""
    match raw:
        case None:
            return None
        case str() | int() | float():
            return redact(key, str(raw))[:WORD_CHARS_MAX]
        case _:
            return type(raw).__name__
