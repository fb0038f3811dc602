"""Ollama's wire: chat and tags, streamed as lines of JSON."""

from __future__ import annotations

from dialectic.core.models.messages import Role
from dialectic.core.strict_json import JsonObject
from dialectic_simulator.conversation import (
    Answer,
    Ask,
    FinishForm,
    Shape,
    Trouble,
    WireName,
)
from dialectic_simulator.script import Facts
from dialectic_simulator.wire import (
    CREATED,
    Event,
    Framing,
    Wire,
    read_count,
    read_model,
    read_object,
    read_turns,
    read_variant,
)

ROLES = {"system": None, "user": Role.USER, "assistant": Role.ASSISTANT}
TOOL_CALL: JsonObject = {"function": {"name": "look_up", "arguments": {"query": "anything"}}}


class OllamaWire(Wire):
    """Chat, as lines of JSON."""

    name = WireName.OLLAMA
    framing = Framing(is_sse=False)

    def read_ask(self, body: JsonObject, *, model: str, is_stream: bool) -> Ask:
        del model, is_stream
        name = read_model(body, "model is required")
        system, turns = read_turns(body.get("messages"), "messages", ROLES, "content")
        options = read_object(body, "options")
        return Ask(
            model=name,
            system=system,
            turns=turns,
            max_tokens=read_count(options, "num_predict"),
            is_stream=body.get("stream", True) is not False,
            variant=read_variant(body, options.get("seed")),
        )

    def build_whole(self, answer: Answer) -> JsonObject:
        return self._build_line(answer, _build_content(answer), is_last=True)

    def build_events(self, answer: Answer) -> list[Event]:
        is_plain = answer.shape is Shape.PLAIN
        events = [
            Event(self._build_line(answer, {"content": piece.text}), tokens=piece.tokens)
            for piece in (answer.pieces if is_plain else ())
        ]
        if answer.finish_form is FinishForm.ABSENT:
            return events
        content = {"content": ""} if is_plain else _build_content(answer)
        last = self._build_line(answer, content, is_last=True)
        return [*events, Event(last, is_finish=True)]

    def _build_line(
        self, answer: Answer, content: JsonObject, *, is_last: bool = False
    ) -> JsonObject:
        line: dict[str, object] = {"model": answer.model, "created_at": CREATED}
        if answer.shape is not Shape.NO_CHOICES:
            line["message"] = {"role": "assistant", **content}
        if not is_last or answer.finish_form is FinishForm.ABSENT:
            return line | {"done": False}
        line |= {"done": True, "done_reason": self.word_finish(answer)}
        line |= {"total_duration": 1_000_000, "load_duration": 1_000}
        if answer.usage is not None:
            line |= {"prompt_eval_count": answer.usage[0], "eval_count": answer.usage[1]}
        return line | {"prompt_eval_duration": 1_000, "eval_duration": 1_000}

    def build_model(self, name: str, facts: Facts) -> JsonObject:
        return {
            "name": name,
            "model": name,
            "modified_at": CREATED,
            "size": 1_000_000,
            "digest": f"{sum(name.encode()):064x}",
            "details": {"format": "gguf", "context_length": facts.context_window_tokens},
        }

    def build_trouble(self, trouble: Trouble) -> JsonObject:
        (said,) = self.word_trouble(trouble)
        return {"error": said}


def _build_content(answer: Answer) -> JsonObject:
    match answer.shape:
        case Shape.NULL_CONTENT:
            return {"content": None}
        case Shape.TOOL_CALL:
            return {"content": "", "tool_calls": [TOOL_CALL]}
        case _:
            return {"content": answer.text}
