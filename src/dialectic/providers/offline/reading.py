"""How the offline models read a prompt: request, sources, feedback, required headings.

Pure, and linear in the size of the prompt: markers are found in one pass, and of a long text only
its head and tail are read closely. Knows nothing of how an answer is worded. The rules are English;
a text in another language, code or nonsense still yields topics and quotable sentences.
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

Remark = tuple[str, str, str]  # what is quoted, what is objected to it, what would be better

VOCABULARY: Mapping[str, Any] = tomllib.loads(
    files(__package__).joinpath("vocabulary.toml").read_text("utf-8")
)
READ_CHARS_MAX = 120_000
SOURCES_MAX, POINTS_PER_SOURCE_MAX = 24, 60
MILESTONES_MAX, HEADINGS_MAX, TOPICS_MAX, REQUIREMENTS_MAX = 8, 40, 8, 99

_STOP_WORDS = frozenset(VOCABULARY["stop_words"].split())
_DETERMINERS = frozenset(VOCABULARY["determiners"].split())
_KINDS = {kind: re.compile(rf"(?i)\b(?:{words})") for kind, words in VOCABULARY["kinds"].items()}
_TASKS = {
    task: (frozenset(kinds.split()), re.compile(rf"(?i)\b(?:{words})\b"))
    for task, (kinds, words) in VOCABULARY["tasks"].items()
}
_PATTERNS = {name: re.compile(f"(?i){text}") for name, text in VOCABULARY["patterns"].items()}
_ROLES = {name: _PATTERNS[name] for name in ("feedback", "request", "context")}  # of a block
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f"
_UNPRINTABLE = re.compile(f"[{_CONTROLS}*`]")
_MARKUP = re.compile(r"[<>]{2,}|<(?=[A-Za-z/!?])")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"”’]*\s+|(?<=[。！？])")
_LIST_MARK = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[(?:[ xX]|open)\]\s+)?")
_WORD = re.compile(r"[^\W_](?:[\w'’+#-]*[\w+#])?")
_PUNCTUATION = ".,;:!?()\"'“”\u2018\u2019"
_MARKER = re.compile(r"(?m)<<<(BEGIN|END)(?: ([^\n]{1,200}?))? ?\[([0-9a-f]{12})\]>>>[ \t]*$")
_TICKED = re.compile(r"`(#{2,6}) +([^`\n]{1,120})`")
_PLAIN = re.compile(r"(?m)^[ \t]*(?:[-*] )?(#{2,6}) +([^\n:]{1,120}):?[ \t]*([^\n]{0,400})$")
_RATING = re.compile(r"\bRated \d of 5\.?$")  # a mark that was given asks for nothing
_LABELLED = re.compile(r"“([^“”\n]{25,400})” \([^()\n]{1,80}(?:\(\d{1,2}\))?\)")
_REMARK = re.compile(rf"(?m)^[ \t]{{0,8}}(?:- |\d+\. )?{_LABELLED.pattern} +([^“”\n]{{12,600}})")
_FIELDS = [re.compile(rf"(?i)\b{f}:[* ]*([^\n]{{3,200}})") for f in VOCABULARY["milestone_fields"]]
_MILESTONES = [
    re.compile(rf"(?im)^[ \t#>*_|-]{{0,12}}{word} +\w{{1,3}}[ :.)–—-]+([^\n]{{3,120}})$")
    for word in VOCABULARY["milestone_names"]
]


class Wanted(NamedTuple):
    """A heading that the answer must contain, exactly as the prompt writes it."""

    heading: str
    kind: str
    note: str


class Topic(NamedTuple):
    """The topic of a sentence of the request, in a few of its own words."""

    name: str
    is_noun: bool
    said: str

    def __str__(self) -> str:
        """Write it as part of a sentence; quote it if it may not be a noun."""
        return f"the {self.name}" if self.is_noun else f"\u2018{self.name}\u2019"


class Point(NamedTuple):
    """One statement of a source, with the heading above it and that heading's kind."""

    text: str
    kind: str
    heading: str
    words: frozenset[str]


_REQUIREMENT = re.compile(
    r"(?m)^[-*\d. \t]{0,8}R(\d{1,3})\W{1,8}(?:must|should|could|binding)\)[: *]+([^\n]{3,300})"
)
_BASE = re.compile(r"(?m)^([^\n]{1,100}) is the base: ")


class Milestone(NamedTuple):
    """A milestone in a source; missing parts are empty."""

    name: str
    goal: str
    acceptance: str
    work: str = ""


class Source(NamedTuple):
    """A source document, by the label that the prompt gives it."""

    label: str
    points: tuple[Point, ...]
    milestones: tuple[Milestone, ...]
    remarks: tuple[Remark, ...]  # of a critique
    words: frozenset[str]  # of all it says, also of what it only repeats
    requirements: tuple[str, ...] = ()  # in the order of their numbers, from R1
    rejected: tuple[tuple[str, str], ...] = ()  # each point with the reason

    @property
    def is_critique(self) -> bool:
        return "critique" in self.label.lower() or "antithesis" in self.label.lower()


class Brief(NamedTuple):
    """Everything known about the task."""

    task: str
    subject: str
    short: str
    topics: tuple[Topic, ...]
    limits: tuple[str, ...]
    people: tuple[str, ...]
    questions: tuple[str, ...]
    feedback: tuple[str, ...]
    sources: tuple[Source, ...]
    shared: Mapping[str, Mapping[str, str]]  # statement -> labels that make it -> of which kind
    wanted: tuple[Wanted, ...]
    words_min: int  # 0 if the prompt names no least length
    words_max: int
    base: str  # the label of the source whose numbers are kept
    is_own_work: bool  # the prompt says that the writer judges a text of its own


def read_brief(system: str, prompt: str) -> Brief:
    """Parse the task from the system instruction and the user's message."""
    blocks, outside = split_blocks(prompt)
    share = READ_CHARS_MAX // max(1, len(blocks))
    texts: dict[str, list[tuple[str, str]]] = {}
    for label, text in blocks:
        role = next((role for role, words in _ROLES.items() if words.search(label)), "source")
        texts.setdefault(role, []).append((label, _sample(text, share)))
    if not blocks:
        texts["request"] = [("", re.sub(r"`#{2,6} [^\n]{0,400}", "", outside))]
    named = texts.get("source", [])[:SOURCES_MAX]
    asked = _read_sentences(texts.get("request", named[:3] or [("", outside)]))
    told = asked + _read_sentences(texts.get("context", []))
    feedback = [s for s in _read_sentences(texts.get("feedback", [])) if not _RATING.search(s)]
    sources, shared = _read_sources(named, told + feedback if "request" in texts else feedback)
    wanted = _find_wanted(outside) or _find_wanted(_sample(system, READ_CHARS_MAX))
    subject, short = _find_subject(asked)
    labels = [label for label, _ in named]
    return Brief(
        task=_decide_task(wanted, f"{system}\n{outside}", labels),
        subject=subject,
        short=short,
        topics=_find_topics(told, short),
        limits=_find_limits(feedback + told),
        people=_first(_PATTERNS["people"].findall(" ".join(told).lower()), 3)
        or ("the people who use it",),
        questions=_first((s for s in asked if s.endswith(("?", "？"))), 4),
        feedback=_first(feedback, 5),
        sources=sources,
        shared=shared,
        wanted=wanted,
        words_min=_read_number("words_min", outside, 0),
        words_max=_read_number("words_max", outside, 1_500),
        base=found.group(1) if (found := _BASE.search(outside)) else "",
        is_own_work=any(_PATTERNS["own_work"].search(text) for text in (outside, *labels)),
    )


def _read_number(name: str, text: str, default: int) -> int:
    found = _PATTERNS[name].search(text)
    return int(found[1].replace(",", "")) if found else default


def upper(text: str) -> str:
    """Begin a sentence with a text."""
    return text[:1].upper() + text[1:]


def clip(text: str, chars: int) -> str:
    """Shorten at the end of a word, with an ellipsis."""
    if len(text) <= chars:
        return text
    head = text[:chars]
    return (head.rsplit(" ", 1)[0] if " " in head[chars // 2 :] else head).rstrip(" ,;:.") + "…"


def words_of(text: str) -> frozenset[str]:
    """Reduce a text to the stems of its words, so that plurals match."""
    words = _WORD.findall(text.lower())
    return frozenset([word[:6] for word in words if len(word) > 2 and word not in _STOP_WORDS])


def kind_of(title: str, note: str = "") -> str:
    """Classify a heading; its description helps if the heading is unusual."""
    found = (kind for text in (title, note) for kind, w in _KINDS.items() if w.search(text))
    return next(found, "general")


def is_limit(sentence: str) -> bool:
    """Tell whether a sentence demands or forbids something."""
    return _PATTERNS["limit"].search(sentence) is not None


def _first(items: Iterable[str], count: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))[:count]


def _clean(text: str) -> str:
    """Make a piece of input safe for a sentence or a table cell of the answer."""
    safe = _MARKUP.sub("", _UNPRINTABLE.sub("", text)).replace("|", "/").replace("](", "] (")
    return " ".join(safe.split()).lstrip("#>~-+ ")


def _sample(text: str, chars: int) -> str:
    """Return a text without its front matter; of a long text, the head and the tail."""
    text = text.lstrip("\n")
    if text.startswith("---\n") and (end := text.find("\n---\n", 3, 4_000)) > 0:
        text = text[end + 5 :]
    return text if len(text) <= chars else text[: chars * 3 // 4] + "\n\n" + text[-chars // 4 :]


def split_blocks(prompt: str) -> tuple[list[tuple[str, str]], str]:
    """Split a prompt into its labelled blocks and the text around them, in one pass."""
    found = _MARKER.finditer(prompt)
    markers = [m for m in found if m.start() == 0 or prompt[m.start() - 1] == "\n"]
    last_end = {m.group(3): m.start() for m in markers if m.group(1) == "END"}
    blocks, outside, position = [], [], 0
    opened: tuple[str, str] | None = None
    seen: Counter[str] = Counter()
    for marker in markers:
        word, label, delimiter = marker.groups()
        if opened is None and word == "BEGIN" and last_end.get(delimiter, -1) > marker.start():
            outside.append(prompt[position : marker.start()])
            opened, position = (clip(_clean(label or "Document"), 80), delimiter), marker.end()
        elif opened is not None and word == "END" and delimiter == opened[1]:
            seen[opened[0]] += 1
            number = f" ({seen[opened[0]]})" if seen[opened[0]] > 1 else ""
            blocks.append((opened[0] + number, prompt[position : marker.start()]))
            opened, position = None, marker.end()
    outside.append(prompt[position:])
    return blocks, _sample("\n".join(outside), READ_CHARS_MAX)


def _find_wanted(text: str) -> tuple[Wanted, ...]:
    """Find the required headings; unmarked ones count only after a word about structure."""
    found = list(_find_ticked(text))
    if not found and (structure := list(_PATTERNS["structure"].finditer(text))):
        found = _PLAIN.findall(text, structure[-1].end())
    wanted: dict[str, Wanted] = {}
    for level, title, rest in found:
        heading = f"{level} {title.strip()}"
        if any(char.isalnum() for char in title):
            wanted.setdefault(heading, Wanted(heading, kind_of(title, rest), rest))
    return tuple(wanted.values())[:HEADINGS_MAX]


def _find_ticked(text: str) -> Iterator[tuple[str, str, str]]:
    """Find headings in backticks, each with what the rest of its line says about it."""
    for line in text.splitlines():
        found = list(_TICKED.finditer(line))
        # A deeper heading in such a description is a pattern for the text below.
        yield from ((m[1], m[2], line[m.end() :]) for m in found if len(m[1]) <= len(found[0][1]))


def _decide_task(wanted: tuple[Wanted, ...], instructions: str, labels: list[str]) -> str:
    """Classify the task by the required headings, else by the instructions."""
    kinds = {section.kind for section in wanted}
    text = _sample(instructions, 20_000)
    if labels and not wanted and _PATTERNS["condense"].search(text):
        return "condense"
    possible = [task for task in _TASKS if labels or task not in ("merge", "critique")]
    found = [task for task in possible if kinds & _TASKS[task][0]]
    for part in (text.strip()[:300], text):
        found += (task for task in possible if _TASKS[task][1].search(part))
    return next(iter(found), "answer")


def _read_paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Yield each paragraph with the heading above it; skip tables, quotes and code."""
    heading = ""
    paragraph: list[str] = []
    fences_close = text.count("\n```") % 2 == text.startswith("```")
    fenced = False
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            fenced = fences_close and not fenced
        elif not fenced and not stripped.startswith((">", "|", "<<<")):
            mark = _LIST_MARK.match(line)
            if paragraph and (not stripped or mark or stripped.startswith("#")):
                yield heading, " ".join(paragraph)
                paragraph = []
            if stripped.startswith("#"):
                heading = clip(_clean(stripped), 200)
                paragraph = [heading] if heading.endswith(".") else []  # an argument in itself
            else:
                paragraph.append(line[mark.end() :] if mark else stripped)


def _split_sentences(paragraph: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(paragraph):
        cleaned = clip(_clean(sentence), 400)
        if not cleaned.endswith(":") and any(char.isalnum() for char in cleaned):
            yield cleaned


def _read_sentences(named: list[tuple[str, str]]) -> list[str]:
    text = "\n\n".join(text for _, text in named)
    return [s for _, paragraph in _read_paragraphs(text) for s in _split_sentences(paragraph)]


def _find_subject(asked: list[str]) -> tuple[str, str]:
    """Find the subject of a request, and a short name for it."""
    if not asked:
        return "the request", "the project"
    opening = clip(asked[0].rstrip("."), 110)
    if opening.endswith(("?", "？")):
        return f"the question “{opening}”", "the answer"
    match = _PATTERNS["ask"].match(opening)
    run = _take_nouns(opening[match.end() :].split()) if match else []
    return f"“{opening}”", f"the {' '.join(run)}" if run else "the project"


def _find_topics(sentences: list[str], short: str) -> tuple[Topic, ...]:
    """Find the topics of the sentences: nouns with an article, else whole sentences."""
    spare = [Topic(name, True, "") for name in VOCABULARY["spare_topics"]]
    if _PATTERNS["english"].search(" ".join(sentences[:50])):
        nouns = (topic for sentence in sentences[:200] for topic in _find_nouns(sentence))
        found = [topic for topic in nouns if str(topic) != short]
        spare = [Topic(clip(s.rstrip(".!"), 80), False, s) for s in sentences[:3]] + spare
    else:
        found = [Topic(name, False, s) for s in sentences[:200] for name in _find_names(s)]
    topics: dict[frozenset[str], Topic] = {}
    for topic in found + spare:
        words = words_of(topic.name)
        known = any(words <= other or other <= words for other in topics)
        if words and not known and (len(topics) < 3 or topic in found):
            topics[words] = topic
    return tuple(topics.values())[:TOPICS_MAX]


def _find_names(sentence: str) -> list[str]:
    """Find likely nouns in another language: capitals after the first word, or long words."""
    words = [word.strip(_PUNCTUATION) for word in sentence.split()[:60]]
    names = [word for word in words[1:] if word[:1].isupper() and len(word) > 4]
    return [clip(name, 40) for name in names or [max(words[1:] or words, key=len)]]


def _find_nouns(sentence: str) -> Iterator[Topic]:
    words = sentence.split()[:60]
    for place, word in enumerate(words, 1):
        if word.lower() in _DETERMINERS and (run := _take_nouns(words[place:])):
            rest = words[place + len(run) :]
            skip = 2 if rest[1:] and rest[1].lower() in (*_DETERMINERS, "other") else 1
            if rest[:1] == ["of"] and (owner := _take_nouns(rest[skip:])):
                run += [*rest[:skip], *owner]
            yield Topic(clip(" ".join(run), 60), True, sentence)


def _take_nouns(words: list[str]) -> list[str]:
    """Take the words up to a stop word or a comma; of a long run its head, as a verb follows it."""
    run: list[str] = []
    for word in words[:5]:
        bare = word.strip(_PUNCTUATION)
        if not bare or bare.lower() in _STOP_WORDS:
            break
        run.append(bare)
        if not word.endswith(bare):
            break
    return run[:2] if len(run) > 3 else run


def _find_limits(sentences: list[str]) -> tuple[str, ...]:
    """Find what is demanded or forbidden; the requested thing only if it names a figure."""
    found = (s for s in sentences if is_limit(s) and not s.endswith("?") and len(s) > 8)
    asks = _PATTERNS["ask"].match
    said = (s for s in found if re.search(r"\d", s) or not ((m := asks(s)) and m[1]))
    return _first((clip(s.rstrip(".!;, "), 150) for s in said), 8)


def _read_sources(
    named: list[tuple[str, str]], known: list[str]
) -> tuple[tuple[Source, ...], dict[str, dict[str, str]]]:
    """Read each source for what it adds; text repeated from the request does not count."""
    owners: dict[str, list[tuple[str, Point]]] = {}
    spoken: dict[str, set[str]] = {label: set() for label, _ in named}
    for label, text in named:
        for point in _read_points(text):
            spoken[label] |= point.words
            owners.setdefault(_plain(point.text), []).append((label, point))
    for sentence in known:
        owners.pop(_plain(sentence), None)
    own: dict[str, list[Point]] = {label: [] for label, _ in named}
    shared: dict[str, dict[str, str]] = {}
    for said in owners.values():
        label, point = said[0]
        own[label].append(point)
        by: dict[str, str] = {}
        for other, same in said:
            by.setdefault(other, same.kind)
        if len(by) > 1:
            shared[point.text] = by
    sources = (
        Source(
            label,
            tuple(own[label]),
            *_read_parts(text),
            frozenset(spoken[label]),
            _read_requirements(text),
            _read_rejected(text),
        )
        for label, text in named
    )
    return tuple(sources), shared


# Cached: one document is part of the prompts of many jobs, and every model reads all of them.
@functools.lru_cache(maxsize=64)
def _read_points(text: str) -> tuple[Point, ...]:
    points: list[Point] = []
    kinds: dict[str, str] = {}
    for heading, paragraph in _read_paragraphs(text):
        kind = kinds[heading] = kinds.get(heading) or kind_of(heading)
        # A quotation is a statement of its own, and the text around it only comments on it. So a
        # point passes from stage to stage without collecting quotation marks.
        quotes = [_clean(quoted) for quoted in _LABELLED.findall(paragraph)]
        said = quotes or filter(_is_statement, _split_sentences(paragraph))
        points += (Point(clip(text, 240), kind, heading, words_of(text)) for text in said)
        if len(points) >= POINTS_PER_SOURCE_MAX:
            break
    return tuple(points)


def _is_statement(sentence: str) -> bool:
    # Other scripts say in ten characters what takes English a line, and some write no spaces.
    whole = sentence.count(" ") >= 3 and len(sentence) >= 25 if sentence.isascii() else True
    return whole and len(sentence) >= 10 and not _PATTERNS["aside"].match(sentence)


def _plain(text: str) -> str:
    return clip(text, 140).lower().rstrip(".!…")


@functools.lru_cache(maxsize=64)
def _read_parts(text: str) -> tuple[tuple[Milestone, ...], tuple[Remark, ...]]:
    """Read a source's milestones, and its objections to the statements it quotes."""
    found = (list(itertools.islice(p.finditer(text), MILESTONES_MAX)) for p in _MILESTONES)
    stones = next(filter(None, found), [])
    milestones = []
    for match, following in itertools.zip_longest(stones, stones[1:]):
        end = following.start() if following else match.end() + 1_000
        lines = (field.search(text, match.end(), end) for field in _FIELDS)
        fields = (clip(_clean(m.group(1)).rstrip("."), 200) if m else "" for m in lines)
        milestones.append(Milestone(clip(_clean(match.group(1)), 80), *fields))
    remarks = itertools.islice(_REMARK.finditer(text), POINTS_PER_SOURCE_MAX)
    approves = _PATTERNS["approves"].match
    objections = (_read_remark(*m.groups()) for m in remarks if not approves(m.group(2)))
    return tuple(milestones), tuple(dict.fromkeys(objections))


@functools.lru_cache(maxsize=64)
def _read_rejected(text: str) -> tuple[tuple[str, str], ...]:
    """Read the points that a source rejected, each with its reason."""
    listed = (p for h, p in _read_paragraphs(text) if h and _KINDS["rejected"].match(h))
    found = ((m, p[m.end() :]) for p in listed if (m := _LABELLED.match(p)))
    return tuple(
        (clip(_clean(match.group(1)), 240), clip(_clean(reason), 240))
        for match, reason in itertools.islice(found, POINTS_PER_SOURCE_MAX)
    )


def _read_requirements(text: str) -> tuple[str, ...]:
    """Read the numbered requirements of a source, if they count from R1 without a gap."""
    found: dict[int, str] = {}
    for match in itertools.islice(_REQUIREMENT.finditer(text), REQUIREMENTS_MAX):
        demand = match.group(2).partition(". Kept by")[0]
        found.setdefault(int(match.group(1)), clip(_clean(demand).rstrip("."), 200))
    is_whole = [*found] == [*range(1, len(found) + 1)]
    return tuple(found.values()) if is_whole else ()


def _read_remark(quoted: str, text: str) -> Remark:
    found = _PATTERNS["remedy"].search(text)
    objection = text[: found.start()] if found and found.start() else text
    remedy = upper(_clean(found.group(1))) if found else ""
    return clip(_clean(quoted), 240), clip(_clean(objection), 240), remedy
