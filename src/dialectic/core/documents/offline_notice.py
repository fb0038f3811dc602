"""What offline models wrote says so, in its first lines. Pure.

The built-in offline models arrange the text they are given; no language model is used. Everything
that is made of their words repeats that, so that no file of theirs passes for advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dialectic.core.money.price import OFFLINE_PROVIDER

# Names no model: a reader of the document must not learn which model wrote it.
NOTICE = (
    "> Composed by a built-in offline model from the given text alone; no language model was used."
)
BY_OFFLINE_MODELS = (
    "Built-in offline models composed this by rule from the given text alone; no language model was"
    " used. Take it as an example of the form, not as advice."
)
ENGLISH_ONLY = (
    "The request is not in English. Offline models write English only, and quote the request as it"
    " is."
)

_LETTERS_SEEN_MAX = 4_000
_WORD = re.compile(r"[^\W\d_]+")
# Words that nearly every sentence of a language has, and that English has not.
_FOREIGN = frozenset(
    "der die das und ist nicht ein eine einen einem für mit auf den dem des zum zur wir ich soll"
    " muss ohne über le la les des une et est pas pour avec dans sur qui que du aux nous sans être"
    " doit el los las un una y es no para con en del por sin como debe il lo gli di che per non è"
    " sono della o os um uma não com de da do em het een niet voor met van och att som för inte med"
    " på i ett og ikke til på av nie się jest dla z na w".split()
)
_ENGLISH = frozenset(
    "the of and to a in is it for with that this on are be as at by from or an must should will can"
    " we our their who which how what when where without not".split()
)


def is_offline(model: str | None) -> bool:
    """Tell whether a model is one of the built-in offline models, by its name."""
    return model is not None and model.startswith(f"{OFFLINE_PROVIDER}/")


def list_notices(models: Iterable[str | None], prompt: str) -> list[str]:
    """List what readers must know about a page that is made of these models' documents."""
    if not any(is_offline(model) for model in models):
        return []
    return [BY_OFFLINE_MODELS, *([] if is_likely_english(prompt) else [ENGLISH_ONLY])]


def is_likely_english(text: str) -> bool:
    """Tell whether a text may be English: by its script, then by its most frequent words.

    A text of a few words without any of them may be English.
    """
    words = [word.casefold() for word in _WORD.findall(text[:_LETTERS_SEEN_MAX])]
    letters = "".join(words)
    if sum(char > "\u024f" for char in letters) * 3 > len(letters):
        return False
    english = sum(word in _ENGLISH for word in words)
    foreign = sum(word in _FOREIGN and word not in _ENGLISH for word in words)
    marked = sum(char > "\u007f" for char in letters)
    return english > foreign or (english == foreign and not (foreign or marked * 20 > len(letters)))
