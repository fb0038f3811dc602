"""The language of a text, told by its script or its most frequent words. Pure."""

from __future__ import annotations

import re
from collections import Counter

SAMPLE_CHARS = 20_000
# At least this share of the words, and this many times as many as of any other language.
SHARE_MIN = 0.06
LEAD_MIN = 1.5
WORDS_MIN = 5

_WORDS = {
    "en": "the of and to in is that for it with as be on are this by not or which from",
    "de": "der die und das ist nicht ein eine mit auf für den von zu im wird sind auch sich werden",
    "fr": "le les et des est une un du pour que qui dans sur pas avec ne au sont par ce",
    "es": "el los y las del que una un por con para es no se como más su lo al este",
    "it": "il di che e la per un una non con sono gli della del si da è nel le dei",
    "pt": "o os e que do da um uma para com não em é por mais dos das se ao na",
    "nl": "de het een en van is dat niet voor met op zijn te die aan wordt er ook als bij",
}
_BY_WORD: dict[str, list[str]] = {}
for _language, _text in _WORDS.items():
    for _word in _text.split():
        _BY_WORD.setdefault(_word, []).append(_language)
# Scripts of one language, the more telling first: Japanese also has Chinese characters.
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
)
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")


def find_language(text: str) -> str | None:
    """Find the language of a text, as its `lang` attribute names it; None if it is not clear."""
    sample = text[:SAMPLE_CHARS]
    letters = len(_LETTER.findall(sample))
    for language, script in _SCRIPTS:
        if letters and len(script.findall(sample)) > 0.2 * letters:
            return language
    words = _WORD.findall(sample.casefold())
    counts: Counter[str] = Counter()
    for word in words:
        counts.update(_BY_WORD.get(word, ()))
    ranked = counts.most_common(2)
    if not ranked or ranked[0][1] < max(WORDS_MIN, SHARE_MIN * len(words)):
        return None
    is_clear = len(ranked) == 1 or ranked[0][1] >= LEAD_MIN * ranked[1][1]
    return ranked[0][0] if is_clear else None
