"""Clean text from people, files and models, so that it can be stored, shown and sent.

Invisible characters can carry hidden instructions, and PostgreSQL cannot store some of them. They
are removed where they have no function, and each kind removed is reported. They are kept where
writing needs them: joiners in emoji and in scripts that join or stack letters, direction marks next
to such letters, variation selectors on emoji and ideographs.
"""

from __future__ import annotations

import re

_BROKEN = "broken character"
# Control characters that are not white space.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_HALF = re.compile(r"[\ud800-\udfff]")
_LONE_HALF = re.compile(
    r"[\ud800-\udbff](?![\udc00-\udfff])|[\udc00-\udfff](?<![\ud800-\udbff][\udc00-\udfff])"
)

# Removed everywhere: the name of one such character, and the class.
_ALWAYS = [
    ("NUL character", r"\x00"),
    ("invisible tag character", r"\U000e0000-\U000e007f"),
    # Embeddings, overrides and isolates: they display a text in another order than its own.
    ("text direction control", r"\u202a-\u202e\u2066-\u2069"),
    # Soft hyphen, grapheme joiner, zero-width space, word joiner and its kin, no-break space.
    ("zero-width character", r"\u00ad\u034f\u200b\u2060-\u2065\u206a-\u206f\ufeff"),
]

# Hebrew to Arabic, India, Tibet, Burma, Khmer, Mongolia, South-East Asia, and their later blocks.
_LETTER = (
    r"[\u0590-\u061b\u061d-\u0dff\u0f00-\u109f\u1780-\u180d\u180f-\u18af\u1a20-\u1aaf\u1b00-\u1bff"
    r"\u1cd0-\u1cff\ua800-\ua8ff\ua980-\uaaff\uabc0-\uabff\ufb1d-\ufdff\ufe70-\ufefc"
    r"\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
_EMOJI = (
    r"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    r"\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_IDEOGRAPH = r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_SELECTOR = r"[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
# Zero-width (non-)joiner, left-to-right, right-to-left and Arabic mark, Mongolian separator.
_JOINER = r"[\u200c-\u200f\u061c\u180e]"

# Kept only where they have a function, and only the first of several in a row. The patterns use
# look-behind after the character: `re` searches much faster for a pattern that opens with a class
# of characters than for one that opens with a look-around.
_OUT_OF_PLACE = [
    (
        "variation selector",
        rf"{_SELECTOR}(?:(?<={_SELECTOR}{_SELECTOR}){_SELECTOR}*"
        rf"|(?<!{_EMOJI}[\ufe0e\ufe0f])(?<!{_IDEOGRAPH}{_SELECTOR})"
        # The keys of a telephone: a digit, the selector, the enclosing key.
        r"(?:(?<![#*0-9]\ufe0f)|(?!\u20e3)))",
    ),
    (
        "zero-width character",
        rf"{_JOINER}(?:(?<={_JOINER}{_JOINER}){_JOINER}*|(?<!{_LETTER}{_JOINER})(?!{_LETTER})"
        rf"(?:(?!{_EMOJI})|(?<!{_EMOJI}\u200d)(?<!{_EMOJI}\ufe0f\u200d)))",
    ),
]
# A character is kept or removed by its neighbours. So remove first what is never kept, then
# selectors, which may be between a joiner and its neighbour, then joiners.
_NEVER_STAY = [(name, re.compile(f"[{characters}]+")) for name, characters in _ALWAYS]
_MAY_STAY = [(name, re.compile(pattern)) for name, pattern in _OUT_OF_PLACE]
# Everything that is ever removed or repaired, in one class: a fast check for most texts.
_SUSPECT = re.compile(
    f"[{''.join(characters for _, characters in _ALWAYS)}{_SELECTOR[1:-1]}{_JOINER[1:-1]}"
    r"\ud800-\udfff]"
)
# Characters that cannot be judged at the edge of a part: the neighbour is in another part.
_EDGES = (
    "".join(
        chr(code)
        for first, last in ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF), (0x200C, 0x200F))
        for code in range(first, last + 1)
    )
    + "\u061c\u180e"
)


def clean_text(text: str) -> tuple[str, list[str]]:
    """Remove unsafe characters; return the text, and a note for each kind that was removed.

    Line ends become line feeds, without a note. Cleaning twice changes nothing.
    """
    if _is_harmless(text):
        return _end_lines(text), []
    text, removed = _remove_always(text)
    text = _remove(_MAY_STAY, text, removed)
    return _end_lines(text), _tell(removed)


def clean_line(text: str) -> str:
    """Clean a name or a title: one line, single spaces, nothing that controls a terminal."""
    return " ".join(_CONTROL.sub("", clean_text(text)[0]).split())


def clean_part(text: str) -> tuple[str, list[str]]:
    """Clean one part of a text; the caller cleans the joined text again.

    Characters at the edges that may belong to the neighbouring part are kept, so that a text may be
    split anywhere: inside a joined emoji, or between CR and LF.
    """
    is_harmless = _is_harmless(text)
    text, removed = (text, {}) if is_harmless else _remove_always(text)
    # Line ends at the beginning too: they may follow a CR.
    start = len(text) - len(text.lstrip(_EDGES + "\r\n"))
    end = max(start, len(text.rstrip(_EDGES + "\r")))
    inner = text[start:end] if is_harmless else _remove(_MAY_STAY, text[start:end], removed)
    return text[:start] + _end_lines(inner) + text[end:], _tell(removed)


def _is_harmless(text: str) -> bool:
    """Tell quickly whether at most line ends need cleaning."""
    return (text.isascii() and "\0" not in text) or _SUSPECT.search(text) is None


def _remove_always(text: str) -> tuple[str, dict[str, int]]:
    """Remove what is never kept; return the text and the counts by name."""
    # First, because two surrogates may form one of the characters removed below.
    text, repaired_count = _repair_halves(text)
    removed = {_BROKEN: repaired_count} if repaired_count else {}
    if text.startswith("\ufeff"):
        removed["byte order mark"] = 1
        text = text[1:]
    return _remove(_NEVER_STAY, text, removed), removed


def _remove(removals: list[tuple[str, re.Pattern[str]]], text: str, removed: dict[str, int]) -> str:
    for name, pattern in removals:
        length = len(text)
        text = pattern.sub("", text)
        if len(text) < length:
            removed[name] = removed.get(name, 0) + length - len(text)
    return text


def _end_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _tell(removed: dict[str, int]) -> list[str]:
    return [
        f"{'repaired' if name == _BROKEN else 'removed'} {_counted(count, name)}"
        for name, count in removed.items()
    ]


def _repair_halves(text: str) -> tuple[str, int]:
    # A surrogate pair becomes its character, a lone surrogate U+FFFD.
    if _HALF.search(text) is None:
        return text, 0
    text, lone_count = _LONE_HALF.subn("\ufffd", text)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return whole, lone_count + len(text) - len(whole)


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
