"""A blind reader: knows the documents and the frame of the page, and nothing of how it is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# The lines that are on a page whatever its documents say. Links are reduced to their labels before.
FRAME = (
    r"# Plan: .*",
    r"> (?:Built-in offline models composed this by rule|The request is not in English).*",
    r">",
    r"Assembled by rule from the documents of session \w{8}, iteration \d+, finished on "
    r"[\d-]{10}\. No model wrote this page; each part names the document that it is from\.",
    r"## (?:Decision|Agreed requirements|Architecture in brief|Milestones|First steps)",
    r"## (?:Where models disagreed, and what was chosen|Open questions for you|Dropped on purpose)",
    r"## (?:What this rests on|Other sessions of this project)",
    r"\*From .* by .*:\*",
    r"\*No document of this iteration has a section of this kind \(\w+\)\.\*",
    r"The checklist names other milestones than the plan\.",
    r"(?:Also: .*|The rest is in .*|All steps are in .*)\.",
    r"Then:",
    r"What the others recommend:",
    r"The documents hold no text to take a decision from\.",
    r"```|~~~",
    r"- (?:Models|Documents|Cost of the session|Date|Not found in any document|Shortcoming"
    r"|Edited by a person|Older than something that it rests on"
    r"|Feedback and ratings by people): ?.*",
    r"- Stage \w+ went on without .*\.",
    r"- Session \w{8}, iteration .*",
)
_FRAME = re.compile("|".join(f"(?:{one})" for one in FRAME))
_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]\([^()\s]*\)")
_LABEL = re.compile(r"^- \*\*[^*]+:\*\* ")
_SOURCE = re.compile(r" \((?:[^()]|\([^()]*\))*\)$")
_STEPS = re.compile(r" \(\d+ steps?\)$")
_WORD = re.compile(r"\w+")


def fold(text: str) -> str:
    """Reduce a text to its words."""
    return " ".join(_WORD.findall(text.casefold()))


def list_invented(page: str, documents: Iterable[str]) -> Iterator[str]:
    """List the lines of a page that are neither of its frame nor in any document."""
    known = [f" {fold(document)} " for document in documents]
    for whole in page.splitlines():
        line = _LINK.sub(r"\1", whole).strip()
        if not line or _FRAME.fullmatch(line):
            continue
        is_decision = _LABEL.match(line) is not None
        said = _SOURCE.sub("", _LABEL.sub("", line)) if is_decision else _STEPS.sub("", line)
        for part in said.split(";") if line.startswith("- **Order:**") else [said]:
            words = fold(part.removesuffix("…"))
            if not any(words in document for document in known):
                yield whole


def lacks(page: str, wanted: Iterable[str]) -> list[str]:
    """List the sentences that a page does not have."""
    said = fold(page)
    return [one for one in wanted if fold(one) not in said]
