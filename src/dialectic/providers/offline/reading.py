"""What the offline models understand of a prompt: request, sources, feedback, wanted headings.

Pure, and linear in the size of the prompt: markers are found in one pass, and of a long text only
its head and tail are read closely. Knows nothing of how an answer is worded.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

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
from dialectic.providers.offline.markdown import upper
from dialectic.providers.offline.words import KINDS, TASK_KINDS, TASKS

READ_CHARS_MAX = 120_000
SOURCES_MAX = 24
POINTS_PER_SOURCE_MAX = 60
MILESTONES_MAX = 8
HEADINGS_MAX = 40
NOTE_CHARS_MAX = 800

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
        re.compile(
            r"context|constrain|criteri|standard|stakehold|complian|refer|resource|background|attach",
            re.IGNORECASE,
        ),
    ),
)
_TICKED = re.compile(r"`(#{2,6}) +([^`\n]{1,120})`[ \t]*[:,–—-]?[ \t]*|\n")
_WHOLE_TICKED = re.compile(r"`#{2,6} +[^`\n]{1,120}`[^\n]{0,400}")
_BULLETED = re.compile(
    r"^[ \t]*[-*] (#{2,6}) +([^\n:]{1,120}):?[ \t]*([^\n]{0,400})$", re.MULTILINE
)
_PLAIN = re.compile(r"^(#{2,6}) +([^\n]{1,120})()$", re.MULTILINE)
_STRUCTURE = re.compile(r"\b(?:output|structure|sections|headings|format)\b", re.IGNORECASE)
_WORK = re.compile(r"\bwork:[* ]*([^\n]{3,240})", re.IGNORECASE)
_GOAL = re.compile(r"\bgoal:[* ]*([^\n]{3,200})", re.IGNORECASE)
_REMARK = re.compile(
    r"^[ \t]{0,8}(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?“([^“”\n]{25,400})” \([^()\n]{1,80}\):? +"
    r"([^“”\n]{12,600})",
    re.MULTILINE,
)
_REMEDY = re.compile(r"\bbetter: +(.{10,240}?[.!?])(?: |$)", re.IGNORECASE)
_APPROVES = re.compile(r"(?:this|it) holds|keep|kept|sound|strong|agree|correct", re.IGNORECASE)
_OWN_WORK = re.compile(
    r"self-critique|\b(?:your own|you wrote|written by you|wrote (?:it |this )?yourself)\b",
    re.IGNORECASE,
)
_ACCEPTANCE = re.compile(r"\baccept(?:ed|ance)[ \w]{0,10}:[* ]*([^\n]{3,200})", re.IGNORECASE)
_MILESTONE, _PHASE = (
    re.compile(
        rf"^[ \t#>*_|-]{{0,12}}{word} +\w{{1,3}}[ :.)–—-]+([^\n]{{3,120}})$",
        re.MULTILINE | re.IGNORECASE,
    )
    for word in ("milestone", "phase")
)
# A mark that was given asks for nothing.
_RATING = re.compile(r"\bRated \d of 5\.?$")
# Sentences about the writing itself, and fields of a step, say nothing that is worth quoting.
_OPENS_ASIDE = re.compile(
    r"(?:depends on|accepted when|done when|do|goal|covers|size|state|work|evidence|first sign"
    r"|proposed ruling|taken|kept|changed|dropped|better|to be seen|chosen|assumed|verified"
    r"|at stake|what carries it|limits|read for this|would fund|strongest|gravest|sure"
    r"|for the [\w ]{1,40}, this comes down|it bears directly|without it the work|most likely"
    r"|it stays as|everything else|not asked for|not met|no open contradiction"
    r"|nothing is said twice|where things stand|left out|phase|settle it|followed|tested"
    r"|collect today|add an answer|replace|held against|out of scope|the strongest argument"
    r"|nothing of the other)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\b(?:the request|sources?|feedback|milestones? \d|those concerned|taken care of, so that"
    r"|comes close to this|no statement of|offline model|read at each milestone"
    r"|(?:thesis|critique|proposal|plan) (?-i:[A-Z]\d?|\d))\b|\((?:must|should|could)\)\.$",
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
    """One statement of a source, with the kinds of the heading and the section it stood under."""

    text: str
    kind: str
    part: str
    stems: frozenset[str]


@dataclass(frozen=True, slots=True)
class Milestone:
    """A milestone that a source sets; what it does not say is empty."""

    name: str
    goal: str
    acceptance: str
    work: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a critique objects to a statement it quotes, and what it would say instead."""

    quoted: str
    objection: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Source:
    """A document to be read, by the label the prompt gives it."""

    label: str
    points: tuple[Point, ...]
    milestones: tuple[Milestone, ...]
    stems: frozenset[str]  # of all it says, also of what it only repeats
    remarks: tuple[Remark, ...] = ()

    @property
    def is_critique(self) -> bool:
        return "critique" in self.label.lower() or "antithesis" in self.label.lower()


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
    shared: Mapping[str, Mapping[str, str]]  # statement -> labels that make it -> in which part
    wanted: tuple[Wanted, ...]
    is_own_work: bool  # the prompt says that the writer judges a text of its own

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
        texts["request"] = [("", _WHOLE_TICKED.sub("", outside))]
    request = _joined(texts.get("request", texts.get("source", [("", outside)])[:3]))
    asked = _sentences(request)
    told = asked + _sentences(_joined(texts.get("context", [])))
    said = _sentences(_joined(texts.get("feedback", [])))
    feedback = [sentence for sentence in said if not _RATING.search(sentence)]
    subject, short = find_subject(request, asked)
    anchors = find_phrases(told, short)
    named_sources = texts.get("source", [])[:SOURCES_MAX]
    sources, shared = _read_sources(
        named_sources, known=told + feedback if "request" in texts else feedback
    )
    wanted = _find_wanted(outside) or _find_wanted(_sample(system, READ_CHARS_MAX))
    return Brief(
        task=_task_of_headings(wanted, has_sources=bool(named_sources))
        or _guess_task(f"{system}\n{outside}", [label for label, _ in named_sources]),
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
        wanted=wanted,
        is_own_work=any(
            _OWN_WORK.search(text) for text in (outside, *(label for label, _ in named_sources))
        ),
    )


def _sentences(text: str) -> list[str]:
    return [sentence for _, _, sentence in read_sentences(text)]


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
    found = _find_ticked(text) or _BULLETED.findall(text)
    if not found and (structure := list(_STRUCTURE.finditer(text))):
        found = _PLAIN.findall(text, structure[-1].end())
    wanted: dict[str, Wanted] = {}
    for level, title, rest in found:
        note = rest.partition("\n")[0]
        heading = f"{level} {title.strip()}"
        if any(char.isalnum() for char in title):
            wanted.setdefault(heading, Wanted(heading, kind_of(title, note), note))
    return tuple(wanted.values())[:HEADINGS_MAX]


def _find_ticked(text: str) -> list[tuple[str, str, str]]:
    """Find headings in backticks, each with what the rest of its line says about it.

    A deeper heading in the description of another is a pattern for what stands below that one.
    """
    found: list[re.Match[str]] = []
    leading = 7
    for match in _TICKED.finditer(text):
        if match.group(1) is None:
            leading = 7
        elif len(match.group(1)) <= leading:
            leading = len(match.group(1))
            found.append(match)
    ends = [*(match.start() for match in found[1:]), len(text)]
    return [
        (match[1], match[2], text[match.end() : min(end, match.end() + NOTE_CHARS_MAX)])
        for match, end in zip(found, ends, strict=False)
    ]


def _task_of_headings(wanted: tuple[Wanted, ...], *, has_sources: bool) -> str:
    """Tell the kind of work by headings that only one kind of work has; else nothing."""
    kinds = {section.kind for section in wanted}
    for task, marks in TASK_KINDS.items():
        if kinds & marks and (has_sources or task not in ("merge", "critique")):
            return task
    return ""


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
) -> tuple[tuple[Source, ...], dict[str, dict[str, str]]]:
    """Read each source for what it adds; what the request says itself is nobody's point."""
    owners: dict[str, list[tuple[str, Point]]] = {}
    spoken: dict[str, set[str]] = {label: set() for label, _ in named}
    for label, text in named:
        for point in _read_points(text):
            spoken[label] |= point.stems
            owners.setdefault(_plain(point.text), []).append((label, point))
    for sentence in known:
        owners.pop(_plain(sentence), None)
    own: dict[str, list[Point]] = {label: [] for label, _ in named}
    for said in owners.values():
        own[said[0][0]].append(said[0][1])
    shared = {
        said[0][1].text: _first_parts(said) for said in owners.values() if said[0][0] != said[-1][0]
    }
    sources = (_as_source(label, text, own[label], spoken[label]) for label, text in named)
    return tuple(sources), shared


def _first_parts(said: list[tuple[str, Point]]) -> dict[str, str]:
    parts: dict[str, str] = {}
    for label, point in said:
        parts.setdefault(label, point.part)
    return parts


def _as_source(label: str, text: str, points: list[Point], stems: set[str]) -> Source:
    source = Source(label, tuple(points), tuple(_read_milestones(text)), frozenset(stems))
    if not source.is_critique:
        return source
    remarks = itertools.islice(_REMARK.finditer(text), POINTS_PER_SOURCE_MAX)
    objections = (
        _read_remark(*match.groups()) for match in remarks if not _APPROVES.match(match.group(2))
    )
    return replace(source, remarks=tuple(dict.fromkeys(objections)))


def _read_remark(quoted: str, text: str) -> Remark:
    found = _REMEDY.search(text)
    objection = text[: found.start()] if found and found.start() else text
    remedy = clean(found.group(1)) if found else ""
    return Remark(clip(clean(quoted), 240), clip(clean(objection), 240), upper(remedy))


def _read_milestones(text: str) -> Iterator[Milestone]:
    found = list(itertools.islice(_MILESTONE.finditer(text), MILESTONES_MAX))
    found = found or list(itertools.islice(_PHASE.finditer(text), MILESTONES_MAX))
    for match, following in itertools.zip_longest(found, found[1:]):
        end = following.start() if following else match.end() + 1_000
        found_lines = (p.search(text, match.end(), end) for p in (_GOAL, _ACCEPTANCE, _WORK))
        fields = (clip(clean(m.group(1)).rstrip("."), 200) if m else "" for m in found_lines)
        yield Milestone(clip(clean(match.group(1)), 80), *fields)


# One document stands in the prompts of many jobs, and each model of a run reads all of them.
@functools.lru_cache(maxsize=64)
def _read_points(text: str) -> tuple[Point, ...]:
    points: list[Point] = []
    kinds: dict[str, str] = {}
    for section, heading, sentence in read_sentences(text):
        for title in (section, heading):
            if title not in kinds:
                kinds[title] = kind_of(title)
        if _is_statement(sentence):
            stems = stems_of(sentence)
            points.append(Point(clip(sentence, 240), kinds[heading], kinds[section], stems))
            if len(points) == POINTS_PER_SOURCE_MAX:
                break
    return tuple(points)


def _plain(text: str) -> str:
    return clip(text, 140).lower().rstrip(".!…")


def _is_statement(sentence: str) -> bool:
    # Other scripts say in ten characters what takes English a line, and some write no spaces.
    whole = sentence.count(" ") >= 3 and len(sentence) >= 25 if sentence.isascii() else True
    if not whole or len(sentence) < 10 or _OPENS_ASIDE.match(sentence):
        return False
    return not _ASIDE.search(sentence)
