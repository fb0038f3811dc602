"""What the offline models understand of a prompt: request, sources, feedback, wanted headings.

Pure, and linear in the size of the prompt: markers are found in one pass, and of a long text only
its head and tail are read closely. Knows nothing of how an answer is worded.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dialectic.providers.offline.language import (
    MARKER_TEXT,
    clean,
    clip,
    find_figures,
    find_limits,
    find_people,
    find_phrases,
    find_subject,
    first,
    is_english,
    read_sentences,
    stems_of,
)
from dialectic.providers.offline.words import KINDS, TASKS

READ_CHARS_MAX = 120_000
SOURCES_MAX = 24
POINTS_PER_SOURCE_MAX = 40
MILESTONES_MAX = 8
HEADINGS_MAX = 40

_KINDS = tuple((kind, re.compile(rf"\b(?:{words})", re.IGNORECASE)) for kind, words in KINDS)
_TASKS = tuple((task, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for task, words in TASKS)
_MARKER = re.compile(
    r"<<<(BEGIN|END)(?: ([^\n]{1,200}?))? ?\[([0-9a-f]{12})\]>>>[ \t]*$", re.MULTILINE
)
_ROLES = (
    ("feedback", re.compile(r"feedback", re.IGNORECASE)),
    ("request", re.compile(r"\b(?:request|prompt)\b", re.IGNORECASE)),
    (
        "context",
        re.compile(r"context|constrain|criteri|standard|stakehold|complian|refer", re.IGNORECASE),
    ),
)
_TICKED = re.compile(r"`(#{2,6}) +([^`\n]{1,120})`[ \t]*[:,–—-]?[ \t]*((?:(?!`#)[^\n]){0,400})")
_BULLETED = re.compile(
    r"^[ \t]*[-*] (#{2,6}) +([^\n:]{1,120}):?[ \t]*([^\n]{0,400})$", re.MULTILINE
)
_PLAIN = re.compile(r"^(#{2,6}) +([^\n]{1,120})()$", re.MULTILINE)
_STRUCTURE = re.compile(r"\b(?:output|structure|sections|headings|format)\b", re.IGNORECASE)
_GOAL = re.compile(r"\bgoal:[* ]*([^\n]{3,200})", re.IGNORECASE)
_ACCEPTANCE = re.compile(r"\baccept(?:ed|ance)[ \w]{0,10}:[* ]*([^\n]{3,200})", re.IGNORECASE)
_MILESTONE = re.compile(
    r"^[ \t#>*_|-]{0,12}(?:milestone|phase) +\w{1,3}[ :.)–—-]+([^\n]{3,120})$",
    re.MULTILINE | re.IGNORECASE,
)
# Sentences about the writing itself, and fields of a step, say nothing that is worth quoting.
_ASIDE = re.compile(
    r"^(?:depends on|accepted when|done when|do|goal|proposed ruling|taken|kept)\b|offline model"
    r"|\b(?:the request|sources?|feedback|milestone \d|those concerned|taken care of, so that)\b"
    r"|\((?:must|should|could)\)\.$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A heading the answer has to hold, just as the prompt writes it."""

    heading: str
    kind: str
    note: str


@dataclass(frozen=True, slots=True)
class Point:
    """One statement of a source, with the kind of section it stood in."""

    text: str
    kind: str
    stems: frozenset[str]


@dataclass(frozen=True, slots=True)
class Milestone:
    """A milestone that a source sets; goal and acceptance are empty where it does not say."""

    name: str
    goal: str
    acceptance: str


@dataclass(frozen=True, slots=True)
class Source:
    """A document to be read, by the label the prompt gives it."""

    label: str
    points: tuple[Point, ...]
    milestones: tuple[Milestone, ...]
    stems: frozenset[str]


@dataclass(frozen=True, slots=True)
class Brief:
    """All that is known about the task."""

    task: str
    subject: str
    short: str
    english: bool
    anchors: Mapping[str, str]  # key phrase -> what the request says about it
    limits: tuple[str, ...]
    figures: tuple[str, ...]
    people: tuple[str, ...]
    questions: tuple[str, ...]
    feedback: tuple[str, ...]
    sources: tuple[Source, ...]
    shared: Mapping[str, tuple[str, ...]]  # statement -> the labels that make it word for word
    wanted: tuple[Wanted, ...]

    @property
    def phrases(self) -> tuple[str, ...]:
        return tuple(self.anchors) or ("core task", "first result", "daily use")


def read_brief(system: str, prompt: str) -> Brief:
    """Read the whole task out of the system instruction and the user's message."""
    blocks, outside = _split_blocks(prompt)
    share = READ_CHARS_MAX // max(1, len(blocks))
    texts: dict[str, list[tuple[str, str]]] = {}
    for label, text in _with_own_labels(blocks):
        texts.setdefault(_role(label), []).append((label, _sample(text, share)))
    if not blocks:
        texts["request"] = [("", _TICKED.sub("", outside))]
    request = _joined(texts.get("request", texts.get("source", [("", outside)])[:3]))
    asked = [sentence for _, sentence in read_sentences(request)]
    told = asked + [sentence for _, sentence in read_sentences(_joined(texts.get("context", [])))]
    feedback = [sentence for _, sentence in read_sentences(_joined(texts.get("feedback", [])))]
    subject, short = find_subject(request, asked)
    anchors = find_phrases(told, short)
    named_sources = texts.get("source", [])[:SOURCES_MAX]
    sources, shared = _read_sources(named_sources, known=asked if "request" in texts else [])
    return Brief(
        task=_guess_task(f"{system}\n{outside}", [label for label, _ in named_sources]),
        subject=subject,
        short=short,
        english=not anchors or is_english(told),
        anchors=anchors,
        limits=find_limits(feedback + told),
        figures=find_figures(told),
        people=find_people(told),
        questions=first((s for s in asked if s.endswith(("?", "？"))), 4),
        feedback=first(feedback, 5),
        sources=sources,
        shared=shared,
        wanted=_find_wanted(outside) or _find_wanted(_sample(system, READ_CHARS_MAX)),
    )


def kind_of(title: str, note: str = "") -> str:
    """Tell what kind of section a heading asks for; its description helps where it is unusual."""
    for text in (title, note):
        for kind, words in _KINDS:
            if words.search(text):
                return kind
    return "general"


def _split_blocks(prompt: str) -> tuple[list[tuple[str, str]], str]:
    """Split a prompt into its labelled blocks and the text around them, in one pass."""
    markers = [
        m for m in _MARKER.finditer(prompt) if m.start() == 0 or prompt[m.start() - 1] == "\n"
    ]
    last_end = {m.group(3): m.start() for m in markers if m.group(1) == "END"}
    blocks, outside, position = [], [], 0
    opened: tuple[str, str] | None = None
    for marker in markers:
        word, label, delimiter = marker.groups()
        if opened is None and word == "BEGIN" and last_end.get(delimiter, -1) > marker.start():
            outside.append(prompt[position : marker.start()])
            opened, position = (label or "Document", delimiter), marker.end()
        elif opened is not None and word == "END" and delimiter == opened[1]:
            blocks.append((clip(clean(opened[0]), 80), prompt[position : marker.start()]))
            opened, position = None, marker.end()
    outside.append(prompt[position:])
    return blocks, MARKER_TEXT.sub(" ", _sample("\n".join(outside), READ_CHARS_MAX))


def _with_own_labels(blocks: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    seen: Counter[str] = Counter()
    for label, text in blocks:
        seen[label] += 1
        yield (f"{label} ({seen[label]})" if seen[label] > 1 else label), text


def _role(label: str) -> str:
    return next((role for role, words in _ROLES if words.search(label)), "source")


def _joined(named: list[tuple[str, str]]) -> str:
    return "\n\n".join(text for _, text in named)


def _sample(text: str, chars: int) -> str:
    """Take a text without its front matter; of a long one, the head and the tail."""
    text = text.lstrip("\n")
    if text.startswith("---\n") and (end := text.find("\n---\n", 3, 4_000)) > 0:
        text = text[end + 5 :]
    return text if len(text) <= chars else text[: chars * 3 // 4] + "\n\n" + text[-chars // 4 :]


def _find_wanted(text: str) -> tuple[Wanted, ...]:
    """Find the headings asked for; unmarked ones count only after a word about structure."""
    found = _TICKED.findall(text) or _BULLETED.findall(text)
    if not found and (structure := list(_STRUCTURE.finditer(text))):
        found = _PLAIN.findall(text, structure[-1].end())
    wanted: dict[str, Wanted] = {}
    for level, title, note in found:
        heading = f"{level} {title.strip()}"
        if any(char.isalnum() for char in title):
            wanted.setdefault(heading, Wanted(heading, kind_of(title, note), note))
    return tuple(wanted.values())[:HEADINGS_MAX]


def _guess_task(instructions: str, labels: list[str]) -> str:
    """Guess the kind of work from the labels of the sources and the words of the instructions."""
    text = _sample(instructions, 20_000)
    opening = text.strip()[:300]
    scores = {task: len(w.findall(text)) + 3 * len(w.findall(opening)) for task, w in _TASKS}
    if labels:
        joined = " ".join(labels).lower()
        scores["propose"] = 0
        scores["critique"] += 3 if len(labels) == 1 else 0
        scores["merge"] += 4 if "critique" in joined or "pairwise" in joined else 1
        scores["checklist"] += 4 if "plan" in joined or "parenthesis" in joined else 0
    else:
        scores.update(merge=0, critique=0)
    return max(scores, key=lambda task: scores[task]) if any(scores.values()) else "answer"


def _read_sources(
    named: list[tuple[str, str]], known: list[str]
) -> tuple[tuple[Source, ...], dict[str, tuple[str, ...]]]:
    """Read each source for what it adds; what the request says itself is nobody's point."""
    owners: dict[str, list[tuple[str, Point]]] = {}
    for label, text in named:
        for point in _read_points(text):
            owners.setdefault(_plain(point.text), []).append((label, point))
    for sentence in known:
        owners.pop(_plain(sentence), None)
    own: dict[str, list[Point]] = {label: [] for label, _ in named}
    for said in owners.values():
        own[said[0][0]].append(said[0][1])
    shared = {
        said[0][1].text: first((label for label, _ in said), SOURCES_MAX)
        for said in owners.values()
        if said[0][0] != said[-1][0]
    }
    return tuple(_as_source(label, text, own[label]) for label, text in named), shared


def _as_source(label: str, text: str, points: list[Point]) -> Source:
    stems = frozenset[str]().union(*(point.stems for point in points))
    return Source(label, tuple(points), tuple(_read_milestones(text)), stems)


def _read_milestones(text: str) -> Iterator[Milestone]:
    found = list(itertools.islice(_MILESTONE.finditer(text), MILESTONES_MAX))
    for match, following in itertools.zip_longest(found, found[1:]):
        end = following.start() if following else match.end() + 1_000
        goal, acceptance = (p.search(text, match.end(), end) for p in (_GOAL, _ACCEPTANCE))
        yield Milestone(
            clip(clean(match.group(1)), 80),
            clip(clean(goal.group(1)).rstrip("."), 150) if goal else "",
            clip(clean(acceptance.group(1)).rstrip("."), 150) if acceptance else "",
        )


def _read_points(text: str) -> list[Point]:
    points: list[Point] = []
    kinds: dict[str, str] = {}
    for heading, sentence in read_sentences(text):
        if heading not in kinds:
            kinds[heading] = kind_of(heading)
        if _is_statement(sentence):
            points.append(Point(clip(sentence, 240), kinds[heading], stems_of(sentence)))
    return points[:POINTS_PER_SOURCE_MAX]


def _plain(text: str) -> str:
    return clip(text, 140).lower().rstrip(".!…")


def _is_statement(sentence: str) -> bool:
    # Other scripts say in ten characters what takes English a line, and some write no spaces.
    whole = sentence.count(" ") >= 3 and len(sentence) >= 25 if sentence.isascii() else True
    return whole and len(sentence) >= 10 and not _ASIDE.search(sentence)
