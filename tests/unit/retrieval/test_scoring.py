"""The words of all passages are read at once, and each passage has its own."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from dialectic.retrieval.weigh import weigh
from tests.cases import each_case
from tests.properties import examples

# What stands between two blanks, and the words in it.
RUNS = {
    "roof": {"roof"},
    "Roof,": {"roof"},
    "decides": {"decides"},
    "decided": {"decided"},
    "deciding": {"decidin"},
    "417": {"417"},
    "3.5": {"3.5"},
    "E-7": {"e-7"},
    "roof/valve": {"roof", "valve"},
    "(valve": {"valve"},
    "工事中": {"工事", "中"},
    "--": set[str](),
    "…": set[str](),
}
PASSAGES = st.lists(st.lists(st.sampled_from(sorted(RUNS)), max_size=8), max_size=12)


@examples(60)
@given(PASSAGES)
@example([])
@example([[], ["--"], ["roof", "Roof,", "roof/valve"], ["roof/valve"]])
def test_each_passage_has_its_own_words_once_and_shares_those_it_shares(
    passages: list[list[str]],
) -> None:
    weighed = weigh([" ".join(runs) for runs in passages])
    wanted = [set().union(*(RUNS[run] for run in runs)) for runs in passages]
    assert [len(words) for words in weighed.words] == list(map(len, wanted))
    assert all(list(words) == sorted(set(words)) for words in weighed.words)
    assert len(weighed.worth) == len(set[str]().union(*wanted))
    found = list(zip(weighed.words, wanted, strict=True))
    for (words, mine), (others, theirs) in itertools.combinations(found, 2):
        assert len({*words} & {*others}) == len(mine & theirs)


@each_case("mark", ["- ", "* ", "+ ", "3. ", "12) ", "  7.\t"])
def test_the_mark_of_an_item_is_none_of_its_words(mark: str) -> None:
    plain, item = weigh(["The roof leaks.", f"{mark}The roof leaks."]).words
    assert item == plain


@each_case("text", ["3.", "3.\nroof", "3.5 roof", "(3) roof", "1234567890. roof"])
def test_a_number_that_is_not_a_mark_is_a_word(text: str) -> None:
    none, found = weigh(["roof", text]).words
    assert set(found) - set(none)


def test_a_word_that_fewer_passages_share_is_worth_more() -> None:
    weighed = weigh(["roof valve", "roof", "roof"])
    roof, valve = weighed.words[0]
    assert weighed.worth[valve] > weighed.worth[roof]
