"""The state of a simulator (counts, limits, gates, log), and the path of one call through it.

Knows only the parts of an HTTP request. Checks in a vendor's order: key, form, window, limits. The
rules of the script choose a call's manner; the random numbers depend on the call's words, not on
the order of calls, so a run is repeatable.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dialectic.core.strict_json import JsonObject
from dialectic_simulator.conversation import Ask, Refused, Route, Trouble, TroubleKind, WireName
from dialectic_simulator.faults import FAULTS, NO_FAULT
from dialectic_simulator.framing import Response
from dialectic_simulator.limits import Limits
from dialectic_simulator.log import CallLog, LoggedCall, price_call
from dialectic_simulator.response import (
    Call,
    build_chat,
    build_fault_trouble,
    build_plain,
    build_refusal,
    check_window,
    decide_cap,
)
from dialectic_simulator.routes import (
    ANTHROPIC_VERSION,
    WIRES,
    Target,
    has_key,
)
from dialectic_simulator.script import Facts, Manner, Rule, Script, Section, merge_manners
from dialectic_simulator.text import (
    Author,
    build_dice,
    build_vector,
    choose_edition,
    count_ask_tokens,
    read_opening,
    read_written,
    spoil_vector,
    write_document,
)
from dialectic_simulator.wire import CountingWire, VectorWire, refuse
from dialectic_simulator.world import hash_text

BODY_BYTES_MAX = 32_000_000
# The models offered by a script that names none; any other name works just as well.
USUAL_MODELS = ("architect", "pragmatist", "skeptic")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


class Gates:
    """Gates by name. A call waits at a held gate until the gate is released."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    def hold(self, name: str) -> None:
        self._held.setdefault(name, asyncio.Event())

    def release(self, name: str) -> None:
        if (gate := self._held.pop(name, None)) is not None:
            gate.set()

    def release_all(self) -> None:
        for name in list(self._held):
            self.release(name)

    async def pass_through(self, *names: str) -> None:
        for name in names:
            if (gate := self._held.get(name)) is not None:
                await gate.wait()


@dataclass(slots=True)
class Progress:
    """The progress of a response; also read when sending was interrupted."""

    status: int | None = None
    tokens: int = 0
    is_complete: bool = False


@dataclass(slots=True)
class Counts:
    """The counts: calls by rule, equal calls, opened conversations."""

    rules: Counter[int] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)
    openings: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Visit:
    """One call in progress: its request, and what it holds until it ends."""

    target: Target
    limits: Limits
    number: int
    call: Call
    trouble: Trouble | None = None
    reserved_tokens: int | None = None
    is_closed: bool = False


class Desk:
    """Accepts calls, answers them and records how they ended."""

    def __init__(self, script: Script, *, clock: Clock, wall_clock: Clock) -> None:
        self.script = script
        self.log = CallLog()
        self.gates = Gates()
        self._clock, self._wall_clock = clock, wall_clock
        self._started_s = clock()
        self.world = script.draw_world()
        self.reset()

    def reset(self) -> None:
        """Reset: counts, limits and log are empty, all gates are open."""
        names = self.script.endpoint_names
        self._counts = Counts()
        self._limits = {name: Limits(self._load_section(name)) for name in names}
        self.gates.release_all()
        self.log.clear()
        self._plants: dict[str, JsonObject] = {}
        self._started_s = self._clock()

    def describe_plants(self) -> JsonObject:
        """Describe the points of the world, and those of each document that an agent wrote."""
        points = [] if self.world is None else self.world.as_json()
        return {"points": points, "documents": dict(self._plants)}

    def _note_plants(self, call: Call) -> None:
        if self.world is None or call.author.agent is None:
            return
        text = write_document(call.ask, call.manner, call.author, edition=call.edition)
        found = self.world.read(text)
        self._plants[hash_text(text)] = {
            "model": call.ask.model,
            "states": sorted(found.states),
            "rejects": sorted(found.rejects),
        }

    def _load_section(self, endpoint: str) -> Section:
        section = self.script.find_section(endpoint)
        assert section is not None, "only endpoints of the script"
        return section

    def list_models(self) -> dict[str, Facts]:
        """List the offered models: those the script names, else the defaults."""
        named = {name: facts for name, facts in self.script.models.items() if "*" not in name}
        return named or {name: self.script.get_facts(name) for name in USUAL_MODELS}

    def open_visit(self, target: Target, incoming: Incoming) -> Visit:
        """Accept a call: parse it, record it and choose its manner, before anything waits."""
        section = self._load_section(target.endpoint)
        body, ask, trouble = _read(target, incoming)
        if section.needs_key and not has_key(incoming.headers, incoming.query):
            trouble = Trouble(TroubleKind.KEY, ask.model)
        manner, try_number = choose_manner(self.script, section, target, ask, self._counts)
        call = Call(
            wire=WIRES[target.wire],
            ask=ask,
            facts=self.script.get_facts(ask.model),
            manner=manner,
            author=self._get_author(ask),
            input_tokens=0,
            try_number=try_number,
            edition=self._choose_edition(target, ask, manner),
            now_s=self._wall_clock(),
        )
        is_faulty = manner.fault != NO_FAULT and trouble is None
        number = self.log.begin(
            LoggedCall(
                at_s=self._now_s(),
                endpoint=target.endpoint,
                wire=target.wire.value,
                route=target.route.value,
                model=ask.model,
                is_stream=ask.is_stream,
                has_key=has_key(incoming.headers, incoming.query),
                assistant_turns=ask.assistant_turns,
                try_number=try_number,
                max_tokens=ask.max_tokens,
                messages_hash=ask.hash_messages(),
                fault=manner.fault if is_faulty else None,
                body=body if self.script.keep_bodies else None,
            )
        )
        return Visit(target, self._limits[target.endpoint], number, call, trouble)

    def _choose_edition(self, target: Target, ask: Ask, manner: Manner) -> int:
        """Count the openings of a conversation; a continued one finds its own opening."""
        if not manner.vary or not ask.turns:
            return 1
        task, _ = read_opening(ask.turns)
        key = json.dumps([target.endpoint, ask.model, ask.system, task, ask.variant])
        if read_written(ask):
            editions = self._counts.openings[key]
            return choose_edition(ask, manner, self._get_author(ask), editions=editions)
        self._counts.openings[key] += 1
        return self._counts.openings[key]

    def _get_author(self, ask: Ask) -> Author:
        """Get who writes for a model."""
        return Author(self.script.seed, self.world, self.script.find_agent(ask.model))

    async def answer(self, visit: Visit) -> Response:
        """Answer a call with text or an error; only an admitted call waits at gates."""
        try:
            response = await self._answer(visit)
        except Refused as refused:
            visit.call = replace(visit.call, allowances=visit.limits.describe())
            return build_refusal(visit.call, refused.trouble)
        manner = visit.call.manner
        gates = [visit.target.endpoint]
        if manner.gate is not None and manner.gate_after_tokens is None:
            gates.append(manner.gate)
        late = manner.gate if manner.gate_after_tokens is not None else None
        return replace(
            response,
            gates=tuple(gates),
            late_gate=late,
            late_gate_tokens=manner.gate_after_tokens or 0,
        )

    async def _answer(self, visit: Visit) -> Response:
        if visit.trouble is not None:
            raise Refused(visit.trouble)
        fault = visit.call.fault
        if fault is not None and fault.trouble is not None:
            trouble = build_fault_trouble(visit.call, fault)
            return build_refusal(visit.call, trouble, is_status_ok=fault.is_status_ok)
        ask, facts = visit.call.ask, visit.call.facts
        # In a thread: reading a long prompt takes a while and would block other calls.
        tokens = await asyncio.to_thread(count_ask_tokens, ask, facts.tokenizer)
        visit.call = replace(visit.call, input_tokens=tokens)
        self.log.update(visit.number, input_tokens=tokens)
        if visit.target.route in (Route.CHAT, Route.EMBEDDINGS):
            check_window(ask, facts, tokens, visit.call.wire)
            self._enter(visit)
        return await asyncio.to_thread(self._build, visit)

    def _enter(self, visit: Visit) -> None:
        is_chat = visit.target.route is Route.CHAT
        tokens = visit.call.input_tokens + (decide_cap(visit.call) if is_chat else 0)
        visit.limits.enter(visit.call.ask.model, tokens, self._now_s())
        visit.reserved_tokens = tokens
        visit.call = replace(visit.call, allowances=visit.limits.describe())

    def _build(self, visit: Visit) -> Response:
        call, target = visit.call, visit.target
        match target.route:
            case Route.CHAT:
                self._note_plants(call)
                return build_chat(call)
            case Route.COUNT_TOKENS:
                assert isinstance(call.wire, CountingWire), "only these have the route"
                return build_plain(call, call.wire.build_count(call.input_tokens))
            case Route.EMBEDDINGS:
                return build_plain(call, _build_vectors(call))
            case Route.MODELS:
                return build_plain(call, self._build_models(call, target))

    def _build_models(self, call: Call, target: Target) -> JsonObject:
        models = self.list_models()
        if not target.model:
            return call.wire.build_models(models)
        if target.model not in models:
            raise Refused(Trouble(TroubleKind.MODEL, target.model))
        return call.wire.build_model(target.model, models[target.model])

    def close_visit(
        self, visit: Visit, progress: Progress, finish: str | None = None, *, hung_up: bool = False
    ) -> None:
        """Release a call and record how it ended; the first report counts."""
        if visit.is_closed:
            return
        visit.is_closed = True
        call = visit.call
        if visit.reserved_tokens is not None:
            used = call.input_tokens + progress.tokens
            visit.limits.leave(max(0, visit.reserved_tokens - used))
        was_worked_on = visit.reserved_tokens is not None and progress.status == 200
        self.log.update(
            visit.number,
            status=progress.status,
            output_tokens=progress.tokens,
            finish_reason=finish if progress.is_complete else None,
            client_closed=hung_up,
            cost_usd=price_call(
                call.facts, call.input_tokens if was_worked_on else 0, progress.tokens
            ),
            ended_s=self._now_s(),
        )

    def _now_s(self) -> float:
        return self._clock() - self._started_s


def _read(target: Target, incoming: Incoming) -> tuple[JsonObject | None, Ask, Trouble | None]:
    """Parse a call as far as possible, and return what is wrong with it."""
    body, ask = None, Ask(model=target.model)
    try:
        body = _read_body(incoming, target)
        ask = _read_ask(body, target)
        _check_form(ask, target, incoming)
    except Refused as refused:
        return body, ask, refused.trouble
    return body, ask, None


def _read_body(incoming: Incoming, target: Target) -> JsonObject:
    if target.route is Route.MODELS:
        return {}
    if len(incoming.body) > BODY_BYTES_MAX:
        raise Refused(Trouble(TroubleKind.TOO_LARGE, target.model))
    try:
        body: Any = json.loads(incoming.body)
    except (ValueError, RecursionError):
        raise refuse("We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise refuse("The body of the request must be a JSON object.")
    if target.is_stream and incoming.query.get("alt") != "sse":
        raise refuse("This simulator streams with alt=sse only.")
    return body


def _read_ask(body: JsonObject, target: Target) -> Ask:
    if target.route is Route.MODELS:
        return Ask(model=target.model)
    wire = WIRES[target.wire]
    if target.route is Route.EMBEDDINGS:
        assert isinstance(wire, VectorWire), "only these have the route"
        return wire.read_embedding(body, model=target.model)
    return wire.read_ask(body, model=target.model, is_stream=target.is_stream)


def _check_form(ask: Ask, target: Target, incoming: Incoming) -> None:
    """Reject what only Anthropic rejects: a call without a version or an output limit."""
    if target.wire is not WireName.ANTHROPIC:
        return
    if ANTHROPIC_VERSION not in incoming.headers:
        raise refuse("anthropic-version: header is required", ask.model)
    if target.route is Route.CHAT and ask.max_tokens is None:
        raise refuse("max_tokens: Field required", ask.model)


def _build_vectors(call: Call) -> JsonObject:
    assert isinstance(call.wire, VectorWire), "only these have the route"
    size = min(call.ask.dimensions or call.facts.dimensions, call.facts.dimensions)
    vectors = [
        spoil_vector(build_vector(text, size), call.manner.fault) for text in call.ask.inputs
    ]
    return call.wire.build_vectors(call.ask, vectors, call.input_tokens)


def choose_manner(
    script: Script, section: Section, target: Target, ask: Ask, counts: Counts
) -> tuple[Manner, int]:
    """Choose how to answer a call, and which try of equal calls it is. Counts this call."""
    key = f"{target.endpoint} {target.wire} {target.route} {ask.model} {ask.variant} "
    key += ask.hash_messages()
    counts.tries[key] += 1
    try_number = counts.tries[key]
    applying: list[Manner] = []
    for number, rule in enumerate(script.rules):
        if not fits(rule, target, ask) or (rule.tries and try_number not in rule.tries):
            continue
        dice = build_dice(script.seed, "rule", number, key, try_number)
        if rule.probability < 1 and dice.random() >= rule.probability:
            continue
        counts.rules[number] += 1
        if rule.calls is None or counts.rules[number] in rule.calls:
            applying.append(rule)
    manner = merge_manners([*applying, section])
    # An endpoint's faults apply to requests for text; a rule can name another route.
    is_strange = target.route is not Route.CHAT and not any(r.fault != NO_FAULT for r in applying)
    if is_strange or not is_possible(manner, ask):
        manner = manner.model_copy(update={"fault": NO_FAULT})
    return manner, try_number


def fits(rule: Rule, target: Target, ask: Ask) -> bool:
    """Return whether a call meets the conditions of a rule that need no counting."""
    return (
        rule.route is target.route
        and rule.endpoint in (None, target.endpoint)
        and rule.wire in (None, target.wire)
        and rule.stream in (None, ask.is_stream)
        and (rule.model is None or fnmatch.fnmatchcase(ask.model, rule.model))
        and (rule.turns is None or ask.assistant_turns in rule.turns)
        and (rule.contains is None or rule.contains in ask.words)
    )


def is_possible(manner: Manner, ask: Ask) -> bool:
    """Return whether a fault applies to a call: some exist in streams only."""
    fault = FAULTS.get(manner.fault)
    return fault is None or ask.is_stream or not fault.streams_only
