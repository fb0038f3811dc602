"""The checks of a request for a run. Pure.

Knows neither the existing projects and sessions nor the catalogue of models.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dialectic.core.process.definition import Process
from dialectic.core.suggestion import find_same, suggest
from dialectic.core.text import clean_line, clean_text
from dialectic.errors import TooLarge, UsageError

NAME_CHARS_MAX = 500
# An overlay is in every prompt and is never shortened.
OVERLAY_CHARS_MAX = 8_000
TOKENS_MAX = 2**31 - 1


def check_prompt(prompt: str, *, bytes_max: int) -> tuple[str, list[str]]:
    """Clean a prompt; reject one that is empty or too long."""
    size = len(prompt.encode("utf-8", errors="replace"))
    if size > bytes_max:
        raise TooLarge(
            f"The prompt has {size:,} bytes; MAX_PROMPT_BYTES allows {bytes_max:,}. "
            "Shorten it, or raise DIALECTIC_MAX_PROMPT_BYTES."
        )
    text, notes = clean_text(prompt)
    if not text.strip():
        raise UsageError(
            "The prompt is empty. Write what the models should argue about.",
            reason="empty",
            subject="prompt",
        )
    return text, notes


def check_name(name: str) -> str:
    """Clean a project's name; reject one that is too long. The caller derives an empty one."""
    text = clean_line(name)
    if len(text) > NAME_CHARS_MAX:
        raise UsageError(
            f"The project's name has {len(text):,} characters; the limit is {NAME_CHARS_MAX}. "
            "Shorten it.",
            reason="too_long",
            subject="name",
            limit=NAME_CHARS_MAX,
        )
    return text


def check_overlay(overlay: str) -> str:
    """Clean what a project adds to its prompts; reject one that is too long."""
    text = clean_text(overlay)[0].strip()
    if len(text) > OVERLAY_CHARS_MAX:
        raise UsageError(
            f"The overlay has {len(text):,} characters; the limit is {OVERLAY_CHARS_MAX:,}. "
            "Shorten it, or give the text as a resource.",
            reason="too_long",
            subject="overlay",
            limit=OVERLAY_CHARS_MAX,
        )
    return text


def check_run_request(process: Process, *, until: str | None, domain: str) -> str:
    """Reject a stage or a domain that the process does not have; return the domain's name."""
    process.load_stage(until or process.order[-1].slug)
    return get_domain(domain, process.file.domains, f"Process {process.name!r} has")


def get_domain(domain: str, known: Collection[str], who: str) -> str:
    """Find a domain among those that `who` has; letter case and spaces do not matter."""
    if (found := find_same(domain, known)) is not None:
        return found
    hint = suggest(domain, known, "Choose one of them.")
    raise UsageError(
        f"{who} no domain {domain!r}. Known domains: {', '.join(known)}. {hint}",
        reason="no_domain",
        subject=domain,
    )


def get_lead(models: Sequence[str], lead: str | None) -> int:
    """Find the lead among the models, from 1."""
    if not lead:
        return 1
    if lead not in models:
        hint = suggest(lead, models, "Choose one of them.")
        raise UsageError(
            f"The lead {lead!r} is not among the models: {', '.join(models)}. {hint}",
            reason="lead_not_asked",
            subject=lead,
        )
    return list(models).index(lead) + 1
