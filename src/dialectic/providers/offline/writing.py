"""Composes a document for a task, in one voice. Pure: the dice are given, nothing else varies."""

from __future__ import annotations

import re
from random import Random

from dialectic.providers.offline.desk import Desk
from dialectic.providers.offline.markdown import join
from dialectic.providers.offline.reading import Wanted, kind_of, read_brief
from dialectic.providers.offline.sections import answer_feedback, write_section
from dialectic.providers.offline.voices import VOICES, Voice

# It names no model: whoever reads the document must not learn who wrote it.
NOTICE = (
    "> Composed by a built-in offline model from the given text alone; no language model was used."
)
TITLES = {
    "propose": "Proposal: {s}",
    "critique": "Critique of {labels}",
    "merge": "Synthesis: {s}",
    "plan": "Plan: {s}",
    "checklist": "Checklist: {s}",
    "answer": "On {s}",
}
OUTLINES = {
    "propose": "Summary|Business case|Features|Technical approach|Success metrics|Risks|Milestones",
    "critique": "Summary|What holds|What is missing|Risks|Open questions|Recommendation",
    "merge": "Summary|Agreements|Disagreements|Points kept|Merged approach|Risks|Recommendation",
    "plan": "Summary|Prerequisites|Milestones|Success metrics|Risks",
    "checklist": "Summary|Checklist|Dependencies|Open questions",
    "answer": "In short|What matters|Recommendation|Open questions",
}
# Sections that speak about the text and its reader, where an answer to feedback is at home.
ANSWERS = frozenset(("summary", "taken", "decisions"))


def compose(model: str, system: str, task: str, rng: Random) -> str:
    """Write the whole document that a model gives in answer to a task."""
    brief = read_brief(system, task)
    wanted = brief.wanted or _outline(brief.task)
    desk = Desk(_find_voice(model), brief, rng, wanted)
    labels = join([source.label for source in brief.sources[:3]]) or brief.subject
    title = f"# {TITLES[brief.task].format(s=brief.subject, labels=labels)}"
    # Where the prompt fixes the headings, a title would be one that nobody asked for.
    blocks = [NOTICE] if brief.wanted else [title, NOTICE]
    answering = _find_answering(wanted) if brief.feedback else None
    for section in wanted:
        blocks.append(section.heading)
        if section is answering:
            blocks += answer_feedback(desk, section)
        blocks += write_section(desk, section)
    return "\n\n".join(filter(None, blocks)) + "\n"


def split_sections(document: str) -> list[str]:
    """Split a document before each of its level-2 headings; what stands above them is left out."""
    return re.split(r"^(?=## )", document, flags=re.MULTILINE)[1:]


def _find_answering(wanted: tuple[Wanted, ...]) -> Wanted | None:
    """Find the section that answers the feedback; none where a writer does so of itself."""
    kinds = {section.kind for section in wanted}
    if "feedback" in kinds or {"checklist", "advice"} <= kinds:
        return None
    return next((s for s in wanted if s.kind in ANSWERS), wanted[0])


def _find_voice(model: str) -> Voice:
    name = model.rpartition("/")[2]
    # A model under another name, such as one with a small window for trials, borrows a voice.
    borrowed = VOICES[sum(name.encode()) % len(VOICES)]
    return next((voice for voice in VOICES if voice.name in name), borrowed)


def _outline(task: str) -> tuple[Wanted, ...]:
    titles = OUTLINES[task].split("|")
    return tuple(Wanted(f"## {title}", kind_of(title), "") for title in titles)
