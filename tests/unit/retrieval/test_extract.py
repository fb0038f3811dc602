"""Of one text, what it says only once is kept: within the budget, in its own words, in order."""

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dialectic.retrieval.extract import (
    ASIDE_CHARS,
    Extract,
    _remembered,
    count_floor_tokens,
    extract,
)
from dialectic.retrieval.pieces import Piece
from dialectic.tokens.counting import get_batch_counter, get_counter
from tests.cases import each_case
from tests.properties import examples

if TYPE_CHECKING:
    from dialectic.retrieval.embedders import Matrix

count = get_counter("o200k_base")
PIECE_CHARS = 300
DIMENSIONS = 16


def embed(texts: list[str]) -> "Matrix":
    """Any vectors will do, so long as a text has always the same one."""
    seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) for text in texts]
    rows = [np.random.default_rng(seed).normal(size=DIMENSIONS) for seed in seeds]
    matrix = np.array(rows, dtype=np.float32).reshape(len(texts), DIMENSIONS)
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True))


def shorten(
    text: str, budget: int, purpose: str = "What must be decided?", *, is_at_once: bool = False
) -> Extract | None:
    pieces = [
        Piece(number, start, start + PIECE_CHARS, text[start : start + PIECE_CHARS], (), 1)
        for number, start in enumerate(range(0, len(text), PIECE_CHARS))
    ]
    rows = embed([piece.text for piece in pieces])
    each = get_batch_counter("o200k_base") if is_at_once else None
    return extract(text, pieces, rows, embed([purpose]), budget, count, count_each=each)


def load_extract(text: str, budget: int) -> Extract:
    found = shorten(text, budget)
    assert found is not None
    return found


# -- what is kept ---------------------------------------------------------------------------------

GENERAL = (
    "Good communication matters for the success of the project. "
    "The success of the project depends on good communication. "
    "Communication, if it is good, brings the project success. "
)
BACKGROUND = "\n\n".join([GENERAL + "The team is committed to the goals of the project."] * 12)


@each_case(
    "fact",
    [
        "The gasket fails above 417 degrees.",
        "Adaeze Okafor holds the only key.",
        "Nobody may open the valve while the tide is rising.",
        "The permit lapses on 9 March.",
        "Set `retry_after_ms` before the call.",
    ],
)
def test_a_fact_survives_where_three_ways_of_saying_little_are_cut(fact: str) -> None:
    text = f"# Report\n\n{BACKGROUND}\n\n{GENERAL}{fact} {GENERAL}\n\n{BACKGROUND}"
    short = load_extract(text, 80)
    assert fact in short.text
    kept = [text[start:end] for start, end in short.spans]
    assert len(kept) == len(set(kept)), "nothing is said twice"


@pytest.mark.parametrize(
    ("before", "fact", "after"),
    [
        ("- Work goes on.\n", "- The lathe was sold to Halvorsen.", "\n- Work goes on."),
        ("| what | value |\n|---|---|\n| work | on |\n", "| lathe | sold |", "\n| work | on |"),
        ("```py\nwork()\n\n", "lathe.sell()", "\n\nwork()\n```"),
    ],
)
def test_facts_survive_in_lists_tables_and_code(before: str, fact: str, after: str) -> None:
    text = f"# Report\n\n{BACKGROUND}\n\n{before}{fact}{after}\n\n{BACKGROUND}"
    assert fact in load_extract(text, count(text) // 8).text


def test_a_passage_is_kept_under_its_headings() -> None:
    text = f"# Plan\n\n## Costs\n\n{BACKGROUND}\n\n## Risks\n\n{BACKGROUND}\n\nThe roof leaks.\n"
    short = load_extract(text, 100).text
    assert "# Plan" in short
    assert re.search(r"## Risks\n.*The roof leaks\.", short, re.DOTALL)


def test_a_row_is_kept_under_the_head_of_its_table() -> None:
    rows = "\n".join(["| ok | fine |"] * 60)
    text = f"| part | state |\n|---|---|\n{rows}\n| gasket | cracked |\n{rows}\n"
    short = load_extract(text, 80).text
    assert short.startswith("| part | state |\n|---|---|\n")
    assert "\n| […] |\n" in short
    assert "\n| gasket | cracked |\n" in short


def test_it_is_seen_that_something_was_left_out_and_how_much() -> None:
    text = f"{BACKGROUND}\n\nThe roof leaks. {BACKGROUND}"
    short = load_extract(text, 80)
    assert "[…]" in short.text
    left_out = short.passages_total - short.passages_kept
    assert short.text.endswith(f"[… {left_out} passages left out …]\n")


def test_what_is_nearer_to_the_purpose_comes_first_among_equals() -> None:
    pigs, cows = "The sty needs a trough.", "The barn needs a ladder."
    text = f"{pigs}\n\n{BACKGROUND}\n\n{cows}\n"
    half = len(text) - len(cows) - 1
    pieces = [Piece(0, 0, half, text[:half], (), 1), Piece(1, half, len(text), text[half:], (), 1)]
    rows = np.eye(2, dtype=np.float32)
    for place, wanted in enumerate([pigs, cows]):
        kept = [extract(text, pieces, rows, rows[[place]], tokens, count) for tokens in (64, 80)]
        assert any(one is not None and wanted in one.text for one in kept)


# -- what always holds ----------------------------------------------------------------------------

WORDS = st.sampled_from(
    "the plan of cost roof valve 417 März x_1 E-7 工事 Ines 3.5 😀 e.g.".split()
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(lambda words: " ".join(words) + ".")
PROSE = st.lists(SENTENCES, min_size=1, max_size=6).map(" ".join)
BLOCKS = st.one_of(
    PROSE,
    PROSE.map(lambda text: text.replace(". ", ".\n")),
    st.builds(lambda level, text: f"{'#' * level} {text}", st.integers(1, 4), SENTENCES),
    st.lists(SENTENCES, min_size=1, max_size=5).map(lambda some: "\n".join(f"- {s}" for s in some)),
    st.lists(SENTENCES, min_size=1, max_size=5).map(
        lambda some: "\n".join(["| a | b |", "|---|---|", *(f"| 1 | {s} |" for s in some)])
    ),
    st.builds(
        lambda mark, text, end: f"{mark}py\n{text}\n\n{text}\n{end}",
        st.sampled_from(["```", "~~~~"]),
        PROSE,
        st.sampled_from(["```", "~~~~", ""]),
    ),
    st.text(alphabet="`~#|-*>.! \n\tab1\u00a0\u2028。", max_size=40),
    st.just("---"),
)
TEXTS = st.lists(BLOCKS, min_size=1, max_size=25).map("\n\n".join)
BUDGETS = st.integers(1, 600)
MARKS = re.compile(r"\[… \d+ passages? left out …\]|\| \[…\] \||\[…\]")


def find_open_fence(text: str) -> str:
    """Find the fence that a reader of Markdown would think is still open at the end."""
    opened = ""
    for line in text.split("\n"):
        found = re.match(r"[ \t]*(`{3,}|~{3,})(.*)", line)
        if found is None:
            continue
        if opened:
            if found[1].startswith(opened) and not found[2].strip():
                opened = ""
        elif found[1][0] == "~" or "`" not in found[2]:
            opened = found[1]
    return opened


@examples(80)
@given(TEXTS, BUDGETS)
@example("a. " * 300, 64)
@example("```\n" + "x = 1\n\n" * 100, 70)
def test_it_always_fits_in_the_texts_own_words_and_order(text: str, budget: int) -> None:
    short = shorten(text, budget)
    if count(text) <= budget:
        assert short is not None
        assert short.text == text
        return
    if short is None:
        return
    assert budget >= count_floor_tokens(count(text))
    assert short.tokens == count(short.text) <= budget
    assert list(short.spans) == sorted(short.spans)
    place = 0
    for start, end in short.spans:
        kept = text[start:end]
        assert kept in short.text[place:]
        place = short.text.index(kept, place) + len(kept)
    # Whatever is not a mark is the source's: each line's own words stand in it.
    lines = [line.strip() for part in MARKS.split(short.text) for line in part.split("\n")]
    assert all(line in text or line in ("```", "~~~~", "```py", "~~~~py") for line in lines)
    assert not find_open_fence(short.text)
    assert shorten(text, budget) == short
    again = shorten(short.text, budget)
    assert again is not None
    assert again.text == short.text


@examples(80)
@given(TEXTS, BUDGETS, st.integers(0, 200))
def test_more_room_never_loses_what_was_kept(text: str, budget: int, more: int) -> None:
    small, large = shorten(text, budget), shorten(text, budget + more)
    if small is not None:
        assert large is not None
        assert set(small.spans) <= set(large.spans)


def test_a_text_without_vectors_or_purpose_is_still_shortened() -> None:
    none = np.zeros((0, DIMENSIONS), dtype=np.float32)
    text = f"{BACKGROUND}\n\nThe roof leaks."
    short = extract(text, [], none, none, 80, count)
    assert short is not None
    assert "The roof leaks." in short.text


@pytest.mark.parametrize("budget", [0, -5, 63])
def test_too_little_room_is_refused(budget: int) -> None:
    assert shorten(BACKGROUND, budget) is None
    assert count_floor_tokens(0) == 64
    assert count_floor_tokens(100_000) == 2_500


# -- how it is counted -----------------------------------------------------------------------------


def test_passages_counted_all_at_once_during_other_work_are_the_same_choice() -> None:
    code = "```\nopen(valve)\n```"
    text = "\n\n".join(
        f"## Part {n}\n\n{GENERAL}Valve {n * 37} leaks.\n\n{code}" for n in range(90)
    )
    assert len(text) > ASIDE_CHARS
    singly = load_extract(text, 900)
    _remembered.cache_clear()
    at_once = shorten(text, 900, is_at_once=True)
    assert at_once == singly
    assert not singly.is_whole
