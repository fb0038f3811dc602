"""Scores, links, chains and relations."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.points import Relation
from dialectic.provenance.align import CANDIDATES_MAX, Alignment
from dialectic.provenance.chain import Chains
from dialectic.provenance.report import Report
from dialectic.provenance.texts import Text, build_lineage
from tests.properties import examples
from tests.unit.provenance.lineages import ask, chain, get_id, place, write

REQUEST = ask("A booking service for a village hall. It must cost under 40 euros a month.")
CALENDAR = "The calendar is public and can be read without signing in."
A = write(
    "A",
    "thesis",
    "## Technical approach\n\nEach booking needs a deposit of 25 euros, paid to the caretaker.\n\n"
    f"{CALENDAR}\n\n"
    "Unsold food goes to the shelter the same night.\n",
    "request",
)
B = write(
    "B",
    "thesis",
    "## Technical approach\n\nThe roof fund may only be spent if the treasurer signs.\n\n"
    "Neighbours are asked before the opening hours are extended.\n",
    "request",
    seat=2,
)
CRITIQUE = write(
    "critique",
    "antithesis",
    "## Critique\n\n### O1: A deposit keeps pupils away from the hall\n\n"
    "Claim: “Each booking needs a deposit of 25 euros, paid to the caretaker.”\n"
    "Better: Pupils book without any deposit if a teacher signs.\n",
    "A",
    "request",
    seat=2,
)
MERGED = write(
    "merged",
    "pairwise_synthesis_chunk",
    "## Improved proposal\n\nWhoever books leaves a deposit of 40 euros with the caretaker.\n\n"
    "Each booking needs a deposit of 25 euros, paid to the caretaker.\n\n"
    "Anyone can read the public calendar; signing in is not needed.\n\n"
    "Pupils book without a deposit when their teacher signs (Critique A1).\n\n"
    "Solar panels on the southern side deliver electricity for the kitchen.\n\n"
    "It must cost under 40 euros a month.\n",
    "A",
    "critique",
    "request",
    labels={"Thesis A": "A", "Critique A1": "critique"},
)
ALL = (REQUEST, A, B, CRITIQUE, MERGED)


def describe(chains: Chains, name: str) -> list[tuple[str, list[str]]]:
    """Say of each point how it relates, and the names of its origins."""
    text = place(chains, name)
    names = {get_id(one): one for one in ("request", "A", "B", "critique", "merged")}
    return [
        (
            chains.alignment.decide_point(text, point.n).value,
            [names[chains.lineage.texts[o.source].id] for o in chains.list_chains(text, point.n)],
        )
        for point in chains.lineage.points[text].points
    ]


def test_each_point_is_linked_to_what_says_the_same_and_to_nothing_else() -> None:
    assert describe(chain(*ALL), "merged") == [
        ("changed", ["A"]),
        # The critique only quotes the thesis.
        ("verbatim", ["A"]),
        ("reworded", ["A"]),
        ("reworded", ["critique"]),
        ("new", []),
        ("verbatim", ["request"]),
    ]


def test_a_text_compared_with_itself_is_verbatim_throughout() -> None:
    copy = replace(MERGED, id=get_id("copy"), sources=(get_id("merged"),))
    chains = chain(*ALL, copy)
    text = place(chains, "copy")
    found = {chains.alignment.decide_point(text, p.n) for p in chains.lineage.points[text].points}
    assert found == {Relation.VERBATIM}


def test_a_point_that_joins_two_documents_is_merged() -> None:
    joined = write(
        "joined",
        "synthesis",
        "## Architecture\n\nThe calendar can be read without signing in, and neighbours are asked "
        "before opening hours are extended.\n",
        "A",
        "B",
    )
    chains = chain(*ALL, joined)
    assert chains.alignment.decide_point(place(chains, "joined"), 0) is Relation.MERGED


def test_a_point_that_was_not_read_is_not_a_source() -> None:
    other = write("other", "synthesis", A.content, "B")
    chains = chain(*ALL, other)
    assert chains.alignment.list_links(place(chains, "other")) == []


def test_a_label_adds_a_link_that_the_score_alone_would_not() -> None:
    said = "## Improved proposal\n\nA teacher may vouch for school classes{}.\n"
    plain = write("plain", "pairwise_synthesis_chunk", said.format(""), "critique")
    labelled = write(
        "labelled",
        "pairwise_synthesis_chunk",
        said.format(" (Critique A1)"),
        "critique",
        labels={"Critique A1": "critique"},
    )
    chains = chain(*ALL, plain, labelled)
    constants = chains.alignment.constants
    best = chains.alignment.score(place(chains, "labelled"), place(chains, "critique")).max()
    links = chains.alignment.list_links(place(chains, "labelled"))
    assert [link.is_declared for link in links] == ([True] if best >= constants.anchor else [])
    assert len(links) >= len(chains.alignment.list_links(place(chains, "plain")))


def test_a_summary_is_traced_but_is_never_a_source() -> None:
    short = write("short", "synthesis", "## Summary\n\nThe calendar is public for everyone.\n", "A")
    after = write(
        "after", "parenthesis", "## Milestones\n\nThe calendar is public for all.\n", "short"
    )
    chains = chain(*ALL, short, after)
    assert chains.list_chains(place(chains, "short"), 0)
    assert not chains.alignment.list_links(place(chains, "after"))


def test_a_formula_of_all_documents_is_not_traced() -> None:
    formula = "Composed by a built-in model for trying things out."
    both = write("both", "synthesis", CALENDAR, "A", "B")
    texts = [replace(text, content=f"{text.content}\n\n{formula}\n") for text in (A, B, both)]
    chains = chain(*texts)
    text = place(chains, "both")
    found = [chains.alignment.decide_point(text, n) for n in range(2)]
    assert found == [Relation.VERBATIM, Relation.NEW]


def test_words_that_documents_took_from_each_other_are_not_a_formula() -> None:
    said = "The deposit of 25 euros is paid to the caretaker."
    first = write("first", "thesis", said)
    texts = [first]
    for number, kind in enumerate(("synthesis", "parenthesis", "paralysis")):
        texts.append(write(f"later {number}", kind, said, "first"))
    chains = chain(*texts)
    assert all(chains.alignment.list_links(place(chains, f"later {n}")) for n in range(3))


# -- properties ------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False))
@examples(25)
def test_the_order_of_documents_and_of_their_sources_changes_nothing(chance: random.Random) -> None:
    def shuffle(text: Text) -> Text:
        sources = list(text.sources)
        chance.shuffle(sources)
        return replace(text, sources=tuple(sources))

    texts = [shuffle(text) for text in ALL]
    chance.shuffle(texts)
    one, other = chain(*ALL), chain(*texts)
    first = Report(one).build_provenance(place(one, "merged"))
    second = Report(other).build_provenance(place(other, "merged"))
    assert first.model_dump_json() == second.model_dump_json()


def test_what_is_written_later_does_not_change_a_score() -> None:
    late = write(
        "late", "parenthesis", "## Milestones\n\nThe deposit is 25 euros and final.", "merged"
    )
    one, other = chain(*ALL), chain(*ALL, late)
    before = one.alignment.score(place(one, "merged"), place(one, "A"))
    after = other.alignment.score(place(other, "merged"), place(other, "A"))
    assert np.array_equal(before, after)


WORDS = st.lists(
    st.sampled_from("the hall deposit 25 40 euros caretaker not keys roof 鑰匙 grün".split()),
    min_size=4,
    max_size=12,
)


@given(WORDS, WORDS)
@examples(50)
def test_a_score_is_between_0_and_1_and_the_same_in_both_directions(
    one: list[str], other: list[str]
) -> None:
    texts = [write("x", "thesis", " ".join(one)), write("y", "thesis", " ".join(other), seat=2)]
    alignment = Alignment(build_lineage(texts))
    sizes = [len(sheet) for sheet in alignment.sheets]
    if 0 in sizes:
        return
    there = alignment.build_group_scorer(0, [0, 1]).score(alignment.sheets[1])
    back = alignment.build_group_scorer(1, [0, 1]).score(alignment.sheets[0])
    assert np.allclose(there, back.T, atol=1e-9)
    assert there.min() >= 0
    assert there.max() <= 1 + 1e-9


def test_a_lineage_without_any_point_is_empty() -> None:
    chains = chain(write("x", "thesis", ""), write("y", "synthesis", "\n\n", "x"))
    found = Report(chains).build_provenance(place(chains, "y"))
    assert (found.passages, found.by_seat, found.unread) == ([], [], 0)


def test_a_source_that_is_not_here_is_left_out() -> None:
    chains = chain(write("alone", "synthesis", A.content, "nowhere"))
    found = Report(chains, "unknown").build_provenance(place(chains, "alone"))
    assert {passage.relation for passage in found.passages} == {Relation.NEW}
    assert found.versions == "unknown"


def test_texts_that_repeat_themselves_have_a_bounded_number_of_links() -> None:
    cases = [f"- The hall is booked by one of forty clubs, case {n}." for n in range(200)]
    same = "## Architecture\n\n" + "\n".join(cases)
    chains = chain(write("A", "thesis", same), write("merged", "synthesis", same, "A"))
    links = chains.alignment.list_links(place(chains, "merged"))
    assert len({link.point for link in links}) == len(cases)
    assert len(links) <= len(cases) * CANDIDATES_MAX
