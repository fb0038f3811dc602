"""What plain text tells: its sentences, key phrases, subject, limits and people.

Pure and linear in the size of the text. Words and rules are English; a text in another language,
code or nonsense still yields phrases and a quotable first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dialectic.providers.offline.words import (
    NOMINAL,
    NOT_PEOPLE,
    PEOPLE,
    STOP_WORDS,
    VERBS,
)

PHRASES_MAX = 10
SENTENCE_CHARS_MAX = 400
WORD_CHARS_MAX = 30

MARKER_TEXT = re.compile(r"<<<(?:BEGIN|END)\b[^\n>]{0,300}(?:>>>)?|<{3,}|>{3,}")
LIMIT = re.compile(
    r"\b(?:must|should|shall|never|cannot|can't|may not|only|at least|at most|no more than|no later"
    r"|no \w+ may|less than|fewer than|within|required|requires|has to|have to|needs? to|without"
    r"|budget|deadline|maximum|minimum|up to|keep|do not|don't|avoid"
    r"|(?:long|short|lat|earli)er than|(?:under|below|above|over) \d+)\b",
    re.IGNORECASE,
)

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f"
_UNPRINTABLE = re.compile(f"[{_CONTROLS}]")
_SUSPECT = re.compile(rf"[{_CONTROLS}<>\[\]|*`]")
_IN_A_CELL = str.maketrans("|", "/", "*`")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\n]{0,300}\)")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")
_QUOTED = re.compile(r"“([^“”\n]{25,400})”(?: \([^()\n]{1,80}\))?")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"”’]*\s+|(?<=[。！？])")
_TORN = re.compile(r"^[.,:;]| [.,:;]")  # what a quotation leaves behind when it is taken out
_LIST_MARK = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_WORD = re.compile(r"[^\W_](?:[\w'’+#-]*[\w+#])?")
_PERSON = re.compile(r"[a-z]{3,}(?:ers|ors|ists|ians)")

_MAKE = (
    "build|create|design|develop|make|write|propose|draft|implement|plan|set up|launch|devise|"
    "sketch|prepare|produce|outline|define|suggest|describe|explain|give"
)
_ASK = re.compile(
    r"(?:(?:please|kindly|now|then|so|also|we|i|i'd|you|they)\s+|(?:want|need|have|plan|intend|hope"
    r"|are going|am going|would like|like|aim|wish) to\s+|help (?:me|us)\s+(?:to\s+)?|let['’]?s\s+"
    r"|(?:can|could) you\s+|(?:the|our|my) (?:goal|aim|task) is to\s+)*"
    rf"(?:(?P<make>(?:{_MAKE})(?:,? (?:and|or) (?:{_MAKE}))*|want|need|would like|looking for)"
    rf"|(?P<change>{'|'.join(NOMINAL)}))\s+(?:me\s+|us\s+)?(?P<object>\S.+)",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[;:(]|\.\s|\s[–—-]\s|, (?=.{0,40}\b(?:must|should|it|we|they|so|and)\b)")
_HEAD_END = re.compile(
    r"\s(?:for|of|to|with|in|on|that|which|from|by|at|so|where|and|who)\s", re.IGNORECASE
)
_ARTICLE = re.compile(r"(?:an?|the|our|my|some|one)\s+", re.IGNORECASE)


def clean(text: str) -> str:
    """Make a piece of input safe to stand in a sentence or a table cell of the answer."""
    if _SUSPECT.search(text):
        text = MARKER_TEXT.sub(" ", _UNPRINTABLE.sub("", text))
        text = _TAG.sub("", _LINK.sub(r"\1", text)).translate(_IN_A_CELL)
        # What is left of a link or a tag by bad nesting must not become one again.
        text = _TAG_START.sub("< ", text.replace("](", "] ("))
    return " ".join(text.split()).lstrip("#>~-+ ")


def clip(text: str, chars: int) -> str:
    """Shorten at the end of a word, visibly."""
    if len(text) <= chars:
        return text
    head = text[:chars]
    return (head.rsplit(" ", 1)[0] if " " in head[chars // 2 :] else head).rstrip(" ,;:.") + "…"


def first(items: Iterable[str], count: int) -> tuple[str, ...]:
    """Take the first different items."""
    return tuple(dict.fromkeys(items))[:count]


def stems_of(text: str) -> frozenset[str]:
    """Reduce a text to comparable beginnings of its words, so that plurals meet."""
    words = _WORD.findall(text.lower())
    return frozenset([word[:6] for word in words if len(word) > 2 and word not in STOP_WORDS])


def read_sentences(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (section, heading, sentence) in reading order; tables and code are passed over.

    The section is the last heading of level 1 or 2, the heading the last of any level.
    """
    section = heading = ""
    paragraph: list[str] = []
    fences_close = text.count("\n```") % 2 == text.startswith("```")
    fenced = False
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            fenced = fences_close and not fenced
        elif not fenced and not stripped.startswith((">", "|")):
            mark = _LIST_MARK.match(line)
            if paragraph and (not stripped or mark or stripped.startswith("#")):
                said = _split_sentences(" ".join(paragraph))
                yield from ((section, heading, sentence) for sentence in said)
                paragraph = []
            if stripped.startswith("#"):
                heading = clip(clean(stripped), 200)
                section = section if stripped.startswith("###") else heading
            else:
                paragraph.append(line[mark.end() :] if mark else stripped)


def _split_sentences(paragraph: str) -> Iterator[str]:
    # A quotation is a statement in its own right: so a point passes from stage to stage without
    # growing a layer of quotation marks at each.
    quotes = [clean(quoted) for quoted in _QUOTED.findall(paragraph)]
    yield from quotes
    for sentence in _SENTENCE_END.split(_QUOTED.sub(" ", paragraph)):
        cleaned = clip(clean(sentence), SENTENCE_CHARS_MAX)
        torn = cleaned.endswith(":") or (quotes and _TORN.search(cleaned))
        if not torn and any(char.isalnum() for char in cleaned):
            yield cleaned


def find_phrases(sentences: list[str], known: str) -> dict[str, str]:
    """Find the key phrases, best first, each with the sentence that says most about it.

    Phrases are runs of words between stop words and verbs; they score by use, by length and by
    standing in a sentence that sets a limit. What is `known` already is no news and is left out
    where there is enough besides.
    """
    spelling: dict[str, str] = {}
    anchor: dict[str, str] = {}
    score: dict[str, float] = {}
    weight = {s: 1.0 if find_limits([s]) else -1.0 if s.endswith("?") else 0.0 for s in sentences}
    for sentence, bonus in weight.items():
        for run in _word_runs(sentence):
            key = " ".join(run).lower()
            if key not in anchor or bonus > weight[anchor[key]]:
                anchor[key] = sentence
            spelling.setdefault(key, " ".join(run))
            score[key] = score.get(key, (0, 0.5, 2.0, 2.0, 1.0)[len(run)]) + 0.5 + bonus
    told = stems_of(known)
    news = [key for key in score if not stems_of(key) <= told]
    ranked = sorted(news if len(news) >= 4 else score, key=lambda key: -score[key])
    chosen: dict[str, str] = {}
    taken: list[frozenset[str]] = []
    for key in ranked[: PHRASES_MAX * 5]:
        stems = stems_of(key)
        if stems and not any(stems <= other or other <= stems for other in taken):
            chosen[spelling[key]] = anchor[key]
            taken.append(stems)
    return dict(list(chosen.items())[:PHRASES_MAX])


def _word_runs(sentence: str) -> Iterator[list[str]]:
    run: list[str] = []
    end = -1
    for match in _WORD.finditer(sentence):
        word = match.group()
        if match.start() == 0 and word.istitle():
            word = word.lower()
        ends_run = _ends_phrase(word.lower())
        if run and (ends_run or sentence[end : match.start()] != " "):
            yield from _whole_run(run)
            run = []
        if not ends_run:
            run.append(word)
        end = match.end()
    yield from _whole_run(run)


def _whole_run(run: list[str]) -> Iterator[list[str]]:
    # In English the noun stands last; people are found by themselves and make no topic.
    if run and not _is_person(run[-1].lower()):
        yield run[-3:] if len(run) > 4 else run


def _ends_phrase(word: str) -> bool:
    if word in STOP_WORDS or word[0].isdigit() or len(word) > WORD_CHARS_MAX or len(word) < 2:
        return True
    forms = (word, word[:-1], word.removesuffix("es"), word.removesuffix("ed"))
    return (word.endswith("ly") and len(word) > 6) or any(form in VERBS for form in forms)


def is_english(sentences: list[str]) -> bool:
    """Tell whether the rules of this module fit: every fifth word of English is a stop word.

    A handful of words proves nothing and gets the benefit of the doubt.
    """
    words = [word.lower() for sentence in sentences[:50] for word in _WORD.findall(sentence)]
    return len(words) < 5 or 5 * sum(word in STOP_WORDS for word in words) >= len(words)


def find_subject(text: str, sentences: list[str]) -> tuple[str, str]:
    """Find what a request is about, as a noun phrase, and a short name for it."""
    for sentence in sentences[:40]:
        if match := _ASK.match(sentence[:300]):
            return _name_object(match)
    title = re.match(r"\s*#{1,3} +([^\n]{2,120})", text)
    if title and clean(title.group(1)):
        return f"“{clip(clean(title.group(1)), 90)}”", "this work"
    if not sentences:
        return "the request", "the work"
    kind, short = (
        ("question", "the answer") if sentences[0].endswith("?") else ("request", "the work")
    )
    return f"the {kind} “{clip(sentences[0].rstrip('.'), 90)}”", short


def _name_object(match: re.Match[str]) -> tuple[str, str]:
    phrase = clip(_CLAUSE_END.split(match["object"].rstrip(".!? "), maxsplit=1)[0].strip(), 110)
    if match["change"]:
        noun = NOMINAL[match["change"].lower()]
        return f"{noun} {phrase}", noun.removesuffix(" of")
    if re.match(r"(?:how|what|why|whether|when|where|which)\b", phrase, re.IGNORECASE):
        return f"the question of {phrase}", "the answer"
    head = _ARTICLE.sub("", _HEAD_END.split(phrase, maxsplit=1)[0].rstrip("…"), count=1)
    return phrase, f"the {clip(head, 40).rstrip('…')}"


def find_limits(sentences: list[str]) -> tuple[str, ...]:
    """Find what the request demands or forbids."""
    found = (s for s in sentences if LIMIT.search(s) and not s.endswith("?") and len(s) > 8)
    # What is asked for is no limit of it, unless it names a figure that has to be reached.
    said = (s for s in found if re.search(r"\d", s) or not _ASK.match(s))
    return first((clip(s.rstrip(".!;, "), 150) for s in said), 8)


def find_figures(sentences: list[str]) -> tuple[str, ...]:
    """Find statements of fact that carry a number: where things stand today."""
    found = (s for s in sentences if re.search(r"\d", s) and not LIMIT.search(s) and len(s) > 15)
    return first((clip(s.rstrip(".!;, "), 150) for s in found if not s.endswith("?")), 3)


def find_people(sentences: list[str]) -> tuple[str, ...]:
    """Find the groups of people that are named."""
    words = (word.lower() for sentence in sentences for word in _WORD.findall(sentence))
    return first(filter(_is_person, words), 3) or ("the people who will use it",)


def _is_person(word: str) -> bool:
    return word in PEOPLE or (_PERSON.fullmatch(word) is not None and word not in NOT_PEOPLE)
