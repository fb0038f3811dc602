"""The standard dialectic on the offline models, without an engine: prompts rendered by hand.

What a run asks and is answered, call by call, with the documents each prompt was given.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from dialectic.core.documents.prompts import build_block, render_template
from dialectic.core.models.messages import Message, Request, Role
from dialectic.processes.loader import load_process
from dialectic.providers.offline.provider import CARDS, OfflineProvider

PROCESS = load_process("standard")
REQUEST = """Build a mobile app that helps volunteers of a food bank plan deliveries to residents.
Volunteers must be able to use it offline in areas with poor reception. Each delivery has dietary
requirements and allergies, which must never be lost. We have a budget of 20,000 euros. Drivers
should see a route with at most 12 stops. Should we buy routing software?"""
FEEDBACK = "I do not want a subscription service. Please spend more on training the volunteers."
FEEDBACK_POINTS = ("I do not want a subscription service", "Please spend more on training")
TEMPLATES = {
    "thesis": "thesis",
    "antithesis_critique": "antithesis",
    "synthesis_pairwise": "synthesis",
    "synthesis_reduce": "synthesis",
    "synthesis_final": "synthesis",
    "parenthesis": "parenthesis",
    "paralysis": "paralysis",
}


@dataclass(frozen=True)
class Call:
    """One prompt with its documents by label, and the answer of one model."""

    template: str
    model: int
    inputs: dict[str, str]
    prompt: str
    text: str

    @property
    def stage(self) -> str:
        return TEMPLATES[self.template]

    def section(self, heading: str) -> str:
        """Cut one section of level 2 out of the answer."""
        body = self.text.partition(f"## {heading}\n")[2]
        return body.partition("\n## ")[0]


def render(
    template: str,
    inputs: dict[str, str] | None = None,
    *,
    feedback: str = "",
    context: dict[str, str] | None = None,
    domain: str = "Software Development",
    request: str = REQUEST,
    overlay: str = "",
) -> str:
    """Render a prompt of the standard process as the engine would."""
    documents = inputs or {}
    values = {
        "domain": domain,
        "request": build_block("Original request", request),
        "context": [build_block(label, text) for label, text in (context or {}).items()],
        "feedback": [build_block("User feedback", feedback)] if feedback else [],
        "inputs": [build_block(label, text) for label, text in documents.items()],
        "listing": list(documents),
        "guidance": PROCESS.get_guidance(domain, template),
        "words": "1,000",
        "base": next(iter(documents)) if len(documents) > 1 else "",
        "overlay": overlay,
        "seat": "",
        "stance": "",
        "steps": [],
    }
    return render_template(template, PROCESS.prompts[template], values)


def build_request(
    template: str, prompt: str, *turns: str, variant: int = 1, cap: int = 8_000
) -> Request:
    """Build the request of a call, with the turns that followed it."""
    roles = (Role.USER, Role.ASSISTANT)
    messages = tuple(Message(roles[i % 2], turn) for i, turn in enumerate((prompt, *turns)))
    system = PROCESS.prompts[PROCESS.load_stage(TEMPLATES[template]).system_prompt_name]
    return Request("any", system, messages, cap, variant)


def ask(request: Request, model: int) -> str:
    """Ask one of the offline models."""
    return asyncio.run(OfflineProvider().complete(CARDS[model], request, lambda _: None)).text


def call(
    template: str, model: int, inputs: dict[str, str] | None = None, feedback: str = ""
) -> Call:
    """Render a prompt and let one model answer it."""
    prompt = render(template, inputs, feedback=feedback)
    return Call(template, model, inputs or {}, prompt, ask(build_request(template, prompt), model))


@functools.cache
def run(count: int, feedback: str = "") -> tuple[Call, ...]:
    """Carry the request through all five stages with a number of models."""
    models = range(count)
    letters = "ABC"[:count]
    theses = [call("thesis", m) for m in models]
    critiques = {
        (t, m): call("antithesis_critique", m, {f"Thesis {letters[t]}": theses[t].text}, feedback)
        for t in models
        for m in models
    }
    pairs = {
        (m, t, c): call(
            "synthesis_pairwise",
            m,
            {
                f"Thesis {letters[t]}": theses[t].text,
                f"Critique {letters[t]}{c + 1}": critiques[t, c].text,
            },
            feedback,
        )
        for m in models
        for t in models
        for c in models
    }
    reduced = {
        (m, t): call(
            "synthesis_reduce",
            m,
            {f"Improved proposal {letters[t]}{c + 1}": pairs[m, t, c].text for c in models},
            feedback,
        )
        for m in models
        for t in models
    }
    proposals = {f"Reduced proposal {letters[t]}{m + 1}": c.text for (m, t), c in reduced.items()}
    final = [call("synthesis_final", m, proposals, feedback) for m in models]
    plans = _all("parenthesis", "Unified proposal", final, feedback)
    lists = _all("paralysis", "Plan", plans, feedback)
    return (
        *theses,
        *critiques.values(),
        *pairs.values(),
        *reduced.values(),
        *final,
        *plans,
        *lists,
    )


def _all(template: str, header: str, calls: Sequence[Call], feedback: str) -> list[Call]:
    inputs = {f"{header} {c.model + 1}": c.text for c in calls}
    return [call(template, c.model, inputs, feedback) for c in calls]


def calls_of(template: str, count: int = 3, feedback: str = FEEDBACK) -> list[Call]:
    """List the calls of one prompt in a run."""
    return [c for c in run(count, feedback) if c.template == template]
