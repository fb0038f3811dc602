"""Google's wire: generateContent, streamGenerateContent, countTokens, embedContent, models."""

from __future__ import annotations

from collections.abc import Sequence

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
    CountingWire,
    Event,
    Framing,
    Headers,
    VectorWire,
    add_figures,
    read_count,
    read_object,
    read_parts,
    read_turns,
    read_variant,
    refuse,
)

ROLES = {"user": Role.USER, "model": Role.ASSISTANT}
FUNCTION_CALL: JsonObject = {"functionCall": {"name": "look_up", "args": {"query": "anything"}}}
METHODS = ["generateContent", "countTokens", "embedContent", "batchEmbedContents"]
DETAIL = "type.googleapis.com/google.rpc."


class GoogleWire(CountingWire, VectorWire):
    """Generated content and embeddings. The path contains the model and the method."""

    name = WireName.GOOGLE
    framing = Framing(line_end="\r\n")

    def read_ask(self, body: JsonObject, *, model: str, is_stream: bool) -> Ask:
        inner = read_object(body, "generateContentRequest") or body
        _, turns = read_turns(inner.get("contents"), "contents", ROLES, "parts")
        system = inner.get("systemInstruction") or inner.get("system_instruction") or {}
        if not isinstance(system, dict):
            raise refuse("systemInstruction: must be an object", model)
        config = read_object(inner, "generationConfig")
        return Ask(
            model=model,
            system=read_parts(system.get("parts", ""), "systemInstruction.parts"),
            turns=turns,
            max_tokens=read_count(config, "maxOutputTokens"),
            is_stream=is_stream,
            variant=read_variant(inner, config.get("seed")),
        )

    def read_embedding(self, body: JsonObject, *, model: str) -> Ask:
        requests = body.get("requests", [body])
        if not isinstance(requests, list) or not all(isinstance(one, dict) for one in requests):
            raise refuse("requests: must be a list of objects", model)
        texts = [
            read_parts(read_object(one, "content").get("parts"), "content") for one in requests
        ]
        if not texts or not all(texts):
            raise refuse("content: must not be empty", model)
        sizes = {read_count(one, "outputDimensionality") for one in requests}
        if len(sizes) > 1:
            raise refuse("outputDimensionality: must be the same for all", model)
        # A single request is answered in a different form than a batch of one.
        is_batch = "requests" in body
        return Ask(model, inputs=tuple(texts), dimensions=sizes.pop(), is_batch=is_batch)

    def build_whole(self, answer: Answer) -> JsonObject:
        parts = [_part(answer, piece) for piece in _join_pieces(answer)]
        return self._build_chunk(answer, parts, is_last=True)

    def build_events(self, answer: Answer) -> list[Event]:
        if answer.shape in (Shape.NO_CHOICES, Shape.BLOCKED):
            return [Event(self._build_chunk(answer, [], is_last=True), is_finish=True)]
        pieces = answer.pieces if answer.shape is not Shape.TOOL_CALL else ()
        parted = 2 if answer.shape is Shape.PARTS else 1
        events = [
            Event(
                self._build_chunk(answer, [{"text": p.text} for p in group], is_last=False),
                tokens=sum(piece.tokens for piece in group),
            )
            for start in range(0, len(pieces), parted)
            if (group := pieces[start : start + parted])
        ]
        if answer.finish_form is FinishForm.ABSENT:
            return events
        last = _part(answer, Piece("", 0))
        return [*events, Event(self._build_chunk(answer, [last], is_last=True), is_finish=True)]

    def _build_chunk(self, answer: Answer, parts: list[JsonObject], *, is_last: bool) -> JsonObject:
        candidate: dict[str, object] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if is_last and answer.finish_form is not FinishForm.ABSENT:
            candidate["finishReason"] = self.word_finish(answer)
        chunk: dict[str, object] = {"candidates": [candidate]}
        if answer.shape is Shape.NO_CHOICES:
            chunk = {}
        if answer.shape is Shape.BLOCKED:
            chunk = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
        if answer.usage is not None:
            chunk["usageMetadata"] = _build_usage(answer, is_last=is_last)
        return chunk | {"modelVersion": answer.model, "responseId": answer.id}

    def build_count(self, tokens: int) -> JsonObject:
        details = [{"modality": "TEXT", "tokenCount": tokens}]
        return {"totalTokens": tokens, "promptTokensDetails": details}

    def build_vectors(self, ask: Ask, vectors: Sequence[list[float]], tokens: int) -> JsonObject:
        del tokens
        if ask.is_batch:
            return {"embeddings": [{"values": vector} for vector in vectors]}
        return {"embedding": {"values": vectors[0]}}

    def build_model(self, name: str, facts: Facts) -> JsonObject:
        return {
            "name": f"models/{name}",
            "version": "1",
            "displayName": name,
            "inputTokenLimit": facts.input_tokens_max,
            "outputTokenLimit": facts.max_output_tokens,
            "supportedGenerationMethods": METHODS,
        }

    def build_trouble(self, trouble: Trouble) -> JsonObject:
        status, said = self.word_trouble(trouble)
        error: dict[str, object] = {"code": trouble.status, "message": said, "status": status}
        if details := _build_details(trouble):
            error["details"] = details
        return {"error": error}

    def build_headers(self, request_id: str, allowances: Allowances) -> Headers:
        del request_id, allowances  # Google sends neither
        return {"server-timing": "gfet4t7; dur=1"}


def _join_pieces(answer: Answer) -> list[Piece]:
    if answer.shape is Shape.PARTS:
        return list(answer.pieces)
    return [Piece(answer.text, sum(piece.tokens for piece in answer.pieces))]


def _part(answer: Answer, piece: Piece) -> JsonObject:
    return FUNCTION_CALL if answer.shape is Shape.TOOL_CALL else {"text": piece.text}


def _build_usage(answer: Answer, *, is_last: bool) -> JsonObject:
    assert answer.usage is not None
    given, made = answer.usage
    if not is_last:
        return {"promptTokenCount": given, "totalTokenCount": given}
    return {
        "promptTokenCount": given,
        "candidatesTokenCount": made,
        "totalTokenCount": add_figures(given, made),
    }


def _build_details(trouble: Trouble) -> list[JsonObject]:
    if trouble.kind is TroubleKind.KEY_INVALID:
        return [{"@type": f"{DETAIL}ErrorInfo", "reason": "API_KEY_INVALID"}]
    if trouble.kind is TroubleKind.SPEND:
        quota = "GenerateRequestsPerDayPerProjectPerModel"
        return [{"@type": f"{DETAIL}QuotaFailure", "violations": [{"quotaId": quota}]}]
    if trouble.retry_after is not None and trouble.retry_after.isdecimal():
        return [{"@type": f"{DETAIL}RetryInfo", "retryDelay": f"{trouble.retry_after}s"}]
    return []
