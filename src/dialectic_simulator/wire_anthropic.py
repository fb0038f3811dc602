"""Anthropic's wire: messages, count_tokens, models."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from dialectic.core.models.messages import Role
from dialectic.core.strict_json import JsonObject
from dialectic_simulator.conversation import (
    Allowances,
    Answer,
    Ask,
    FinishForm,
    Piece,
    Shape,
    Trouble,
    TroubleKind,
    WireName,
)
from dialectic_simulator.script import Facts
from dialectic_simulator.wire import (
    CREATED,
    CREATED_S,
    CountingWire,
    Event,
    Headers,
    read_count,
    read_model,
    read_parts,
    read_turns,
    read_variant,
    refuse,
)

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}
TOOL_USE: JsonObject = {"type": "tool_use", "id": "toolu_simulated", "name": "look_up", "input": {}}
SPEND_DETAILS = {"error_code": "enforced_spend_limit_reached"}


class AnthropicWire(CountingWire):
    """Messages."""

    name = WireName.ANTHROPIC

    def read_ask(self, body: JsonObject, *, model: str, is_stream: bool) -> Ask:
        del model, is_stream
        name = read_model(body, "model: Field required")
        _, turns = read_turns(body.get("messages"), "messages", ROLES, "content")
        if turns[0].role is not Role.USER:
            raise refuse("messages: first message must use the user role", name)
        return Ask(
            model=name,
            system=read_parts(body.get("system", ""), "system"),
            turns=turns,
            max_tokens=read_count(body, "max_tokens"),
            is_stream=body.get("stream") is True,
            variant=read_variant(body, None),
        )

    def build_whole(self, answer: Answer) -> JsonObject:
        whole = _build_message(answer, _build_content(answer))
        if answer.finish_form is FinishForm.ABSENT:
            return whole
        return {**whole, "stop_reason": self.word_finish(answer), "stop_sequence": None}

    def build_events(self, answer: Answer) -> list[Event]:
        start = _build_message(answer, [], output_tokens=1)
        start = {**start, "stop_reason": None, "stop_sequence": None}
        events = [_event("message_start", message=start), _event("ping")]
        for index, block in enumerate(_split_blocks(answer)):
            events += _build_block_events(index, answer, block)
        if answer.finish_form is FinishForm.ABSENT:
            return events
        delta = {"stop_reason": self.word_finish(answer), "stop_sequence": None}
        last: dict[str, object] = {"type": "message_delta", "delta": delta}
        if answer.usage is not None:
            last["usage"] = {"output_tokens": answer.usage[1]}
        return [
            *events,
            Event(last, "message_delta", is_finish=True),
            Event({"type": "message_stop"}, "message_stop", is_terminator=True),
        ]

    def build_count(self, tokens: int) -> JsonObject:
        return {"input_tokens": tokens}

    def build_models(self, models: Mapping[str, Facts]) -> JsonObject:
        names = list(models)
        return {
            "data": [self.build_model(*item) for item in models.items()],
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }

    def build_model(self, name: str, facts: Facts) -> JsonObject:
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": CREATED,
            "max_input_tokens": facts.input_tokens_max,
            "max_tokens": facts.max_output_tokens,
        }

    def build_trouble(self, trouble: Trouble) -> JsonObject:
        kind, said = self.word_trouble(trouble)
        error: dict[str, object] = {"type": kind, "message": said}
        if trouble.kind is TroubleKind.SPEND:
            error["details"] = SPEND_DETAILS
        return {"type": "error", "error": error}

    def build_trouble_event(self, trouble: Trouble) -> Event:
        return Event(self.build_trouble(trouble), name="error")

    def build_headers(self, request_id: str, allowances: Allowances) -> Headers:
        headers = {"request-id": request_id}
        for name, left in allowances.named.items():
            reset = datetime.datetime.fromtimestamp(CREATED_S + left.reset_s, datetime.UTC)
            headers[f"anthropic-ratelimit-{name}-limit"] = str(left.limit)
            headers[f"anthropic-ratelimit-{name}-remaining"] = str(left.remaining)
            headers[f"anthropic-ratelimit-{name}-reset"] = reset.strftime("%Y-%m-%dT%H:%M:%SZ")
        return headers


def _event(kind: str, tokens: int = 0, /, **data: object) -> Event:
    return Event({"type": kind, **data}, kind, tokens)


def _build_message(
    answer: Answer, content: list[JsonObject], *, output_tokens: int | str | None = None
) -> JsonObject:
    message: dict[str, object] = {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
    }
    if answer.usage is not None:
        message["usage"] = {
            "input_tokens": answer.usage[0],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens or answer.usage[1],
        }
    return message


def _split_blocks(answer: Answer) -> list[tuple[Piece, ...]]:
    """Split an answer into its blocks: one, or with the fault two; none without a choice."""
    if answer.shape is Shape.NO_CHOICES:
        return []
    if answer.shape is Shape.PARTS and len(answer.pieces) > 1:
        half = len(answer.pieces) // 2
        return [answer.pieces[:half], answer.pieces[half:]]
    return [answer.pieces]


def _build_content(answer: Answer) -> list[JsonObject]:
    if answer.shape is Shape.TOOL_CALL:
        return [TOOL_USE]
    return [
        {"type": "text", "text": "".join(piece.text for piece in block)}
        for block in _split_blocks(answer)
    ]


def _build_block_events(index: int, answer: Answer, block: tuple[Piece, ...]) -> list[Event]:
    is_tool = answer.shape is Shape.TOOL_CALL
    opening = TOOL_USE if is_tool else {"type": "text", "text": ""}
    deltas = [
        _event(
            "content_block_delta",
            piece.tokens,
            index=index,
            delta={"type": "text_delta", "text": piece.text},
        )
        for piece in (() if is_tool else block)
    ]
    return [
        _event("content_block_start", index=index, content_block=opening),
        *deltas,
        _event("content_block_stop", index=index),
    ]
