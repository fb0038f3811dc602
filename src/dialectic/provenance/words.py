"""The words of points as they are compared: stems, and pairs of characters. Pure.

Scripts without blanks are read by overlapping pairs of characters, because it is not known where
their words begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dialectic.retrieval.weigh import find_words, stem

_RUN = re.compile("[\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+")
_LETTER = re.compile(r"[^\W\d_]")


def read_words(text: str) -> Iterator[str]:
    """Read the stems of a text, and the pairs of characters where it has no blanks."""
    for run in _RUN.findall(text):
        if len(run) == 1:
            yield run
        yield from (run[at : at + 2] for at in range(len(run) - 1))
    yield from map(stem, find_words(_RUN.sub(" ", text)))


def is_dense(text: str) -> bool:
    """Return whether most letters of a text belong to a script without blanks."""
    return 2 * sum(map(len, _RUN.findall(text))) > len(_LETTER.findall(text))
