"""OpenAI's wire: chat completions, embeddings, models. Most local servers speak it too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dialectic.core.models.messages import Role
from dialectic.core.strict_json import JsonObject
from dialectic_simulator.conversation import (
    Allowances,
    Answer,
    Ask,
    FinishForm,
    Shape,
    Trouble,
    TroubleKind,
    WireName,
)
from dialectic_simulator.script import Facts
from dialectic_simulator.text import encode_base64
from dialectic_simulator.wire import (
    CREATED_S,
    Event,
    Headers,
    VectorWire,
    add_figures,
    read_count,
    read_model,
    read_object,
    read_text,
    read_turns,
    read_variant,
    refuse,
)

ROLES = {
    "system": None,
    "developer": None,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
}
TOOL_CALL = {
    "index": 0,
    "id": "call_simulated",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"query": "anything"}'},
}
REFUSAL = "I'm sorry, but I can't help with that."


class OpenAIWire(VectorWire):
    """Chat completions and embeddings."""

    name = WireName.OPENAI

    def read_ask(self, body: JsonObject, *, model: str, is_stream: bool) -> Ask:
        del model, is_stream  # both are in the body
        name = read_model(body, "you must provide a model parameter")
        if body.get("n", 1) != 1:
            raise refuse("n: this simulator gives one choice only", name)
        system, turns = read_turns(body.get("messages"), "messages", ROLES, "content")
        options = read_object(body, "stream_options")
        return Ask(
            model=name,
            system=system,
            turns=turns,
            max_tokens=read_count(body, "max_completion_tokens") or read_count(body, "max_tokens"),
            is_stream=body.get("stream") is True,
            variant=read_variant(body, body.get("seed")),
            wants_usage=options.get("include_usage") is True,
        )

    def read_embedding(self, body: JsonObject, *, model: str) -> Ask:
        del model
        given = body.get("input")
        inputs = [given] if isinstance(given, str) else given
        if not isinstance(inputs, list) or not inputs:
            raise refuse("input: must be a string or a list of strings that is not empty")
        if not all(isinstance(text, str) and text for text in inputs):
            raise refuse("input: every text must be a string that is not empty")
        return Ask(
            model=read_text(body, "model"),
            inputs=tuple(inputs),
            dimensions=read_count(body, "dimensions"),
            is_base64=body.get("encoding_format") == "base64",
        )

    def build_whole(self, answer: Answer) -> JsonObject:
        choice = {"index": 0, "message": _build_message(answer), "logprobs": None}
        if answer.finish_form is not FinishForm.ABSENT:
            choice["finish_reason"] = self.word_finish(answer)
        whole: dict[str, object] = {
            "id": answer.id,
            "object": "chat.completion",
            "created": CREATED_S,
            "model": answer.model,
            "choices": [] if answer.shape is Shape.NO_CHOICES else [choice],
        }
        if answer.usage is not None:
            whole["usage"] = _build_usage(answer)
        return whole | {"service_tier": "default", "system_fingerprint": "fp_simulated"}

    def build_events(self, answer: Answer) -> list[Event]:
        deltas: list[tuple[JsonObject, int]] = [({"role": "assistant", "content": ""}, 0)]
        deltas += _build_deltas(answer)
        events = [Event(_build_chunk(answer, [_choice(d, None)]), tokens=n) for d, n in deltas]
        if answer.finish_form is not FinishForm.ABSENT:
            last = _choice({}, self.word_finish(answer))
            events.append(Event(_build_chunk(answer, [last]), is_finish=True))
        if answer.shape is Shape.NO_CHOICES:
            events = [Event(_build_chunk(answer, []), is_finish=True)]
        if answer.wants_usage and answer.usage is not None:
            events.append(Event({**_build_chunk(answer, []), "usage": _build_usage(answer)}))
        return [*events, Event("[DONE]", is_terminator=True)]

    def build_vectors(self, ask: Ask, vectors: Sequence[list[float]], tokens: int) -> JsonObject:
        return {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": encode_base64(vector) if ask.is_base64 else vector,
                }
                for index, vector in enumerate(vectors)
            ],
            "model": ask.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def build_models(self, models: Mapping[str, Facts]) -> JsonObject:
        return {"object": "list", "data": [self.build_model(*item) for item in models.items()]}

    def build_model(self, name: str, facts: Facts) -> JsonObject:
        # Vendors send no limits here; local servers do, under this name.
        window = {"context_window": facts.context_window_tokens}
        return {"id": name, "object": "model", "created": CREATED_S, "owned_by": "sim"} | window

    def build_trouble(self, trouble: Trouble) -> JsonObject:
        kind, code, said = self.word_trouble(trouble)
        param = "messages" if trouble.kind is TroubleKind.CONTEXT else None
        return {"error": {"message": said, "type": kind, "param": param, "code": code or None}}

    def build_headers(self, request_id: str, allowances: Allowances) -> Headers:
        headers = {"x-request-id": request_id, "openai-processing-ms": "1"}
        for name, left in allowances.named.items():
            headers[f"x-ratelimit-limit-{name}"] = str(left.limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(left.remaining)
            headers[f"x-ratelimit-reset-{name}"] = f"{left.reset_s:.3f}s"
        return headers


def _build_message(answer: Answer) -> JsonObject:
    content: object = answer.text
    message: dict[str, object] = {"role": "assistant"}
    match answer.shape:
        case Shape.NULL_CONTENT:
            content = None
        case Shape.PARTS:
            content = [{"type": "text", "text": piece.text} for piece in answer.pieces]
        case Shape.TOOL_CALL:
            content = None
            message["tool_calls"] = [TOOL_CALL]
        case Shape.REFUSAL:
            content = None
        case _:
            pass
    refusal = REFUSAL if answer.shape is Shape.REFUSAL else None
    return message | {"content": content, "refusal": refusal}


def _build_deltas(answer: Answer) -> list[tuple[JsonObject, int]]:
    match answer.shape:
        case Shape.NULL_CONTENT:
            return [({"content": None}, 0)]
        case Shape.TOOL_CALL:
            return [({"tool_calls": [TOOL_CALL]}, 0)]
        case Shape.REFUSAL:
            return [({"refusal": REFUSAL}, 0)]
        case Shape.PARTS:
            return [
                ({"content": [{"type": "text", "text": piece.text}]}, piece.tokens)
                for piece in answer.pieces
            ]
        case _:
            return [({"content": piece.text}, piece.tokens) for piece in answer.pieces]


def _choice(delta: JsonObject, finish: str | int | None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _build_chunk(answer: Answer, choices: list[JsonObject]) -> JsonObject:
    chunk = {
        "id": answer.id,
        "object": "chat.completion.chunk",
        "created": CREATED_S,
        "model": answer.model,
        "service_tier": "default",
        "system_fingerprint": "fp_simulated",
        "choices": choices,
    }
    return chunk | ({"usage": None} if answer.wants_usage else {})


def _build_usage(answer: Answer) -> JsonObject:
    assert answer.usage is not None
    given, made = answer.usage
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": add_figures(given, made),
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
