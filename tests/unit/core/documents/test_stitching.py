"""A text that was cut and continued exactly is the text it was; what is said twice is not."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.stitching import (
    ECHO_CHARS_MIN,
    FENCE,
    HEADING_SEAM,
    OVERLAP,
    PREAMBLE,
    RESTART,
    Joined,
    describe_end,
    find_open_fence,
    is_unclosed,
    join,
    says_the_same,
    seems_finished,
)
from tests.cases import each_case

DOCUMENT = """\
# A hall for the village

The hall is booked by telephone today, and every second booking is written down twice. This plan
moves the diary to a shared page. It does not replace the people: it spares them the telephone.

## Who does what

| who | what | when |
| --- | --- | --- |
| caretaker | opens the hall | before each booking |
| treasurer | writes the invoices | on the first of the month |
| treasurer | writes the reminders | on the first of the month |

- [ ] Ask the council for the key
- [ ] Ask the council for the money
- [ ]
- [ ]
  1. first, the small room
  2. then the large one

### Risks

Risks. Risks are what they are. aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa

```python
def book(hall: str, day: date) -> Booking:
    if hall not in HALLS:
        raise UnknownHall(hall)
    return Booking(hall, day)
```

### Risks

> Continuing education of the volunteers is not part of this plan.

```json
{"milestones": [{"name": "diary", "steps": ["copy", "check"]}, {"name": "keys", "steps": []}],
 "note": "quotes \\" and\\nlines", "rows": [1, 2, 3, 1, 2, 3, 1, 2, 3]}
```

~~~text
| --- | --- |
| --- | --- |
| --- | --- |
~~~

Zum Schluss: Größe, Maß, 村の集会所を予約する。村の集会所を予約する。 👩‍🌾👩‍🌾
- yes
- yes
- yes
"""


# -- a model that goes on exactly -----------------------------------------------------------------


def test_a_text_cut_anywhere_is_joined_to_the_text_it_was() -> None:
    wrong = [
        cut
        for cut in range(len(DOCUMENT) + 1)
        if join([DOCUMENT[:cut], DOCUMENT[cut:]]) != Joined(DOCUMENT)
    ]
    assert wrong == []


@given(st.lists(st.integers(0, len(DOCUMENT)), max_size=12))
def test_a_text_cut_many_times_is_joined_to_the_text_it_was(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(DOCUMENT)]
    turns = [DOCUMENT[begin:end] for begin, end in itertools.pairwise(places)]
    assert join(turns) == Joined(DOCUMENT)


@each_case("size", [1, 2, 3, 7, 24, 60, 241])
def test_turns_of_any_size_are_joined_to_the_text_they_were(size: int) -> None:
    turns = [DOCUMENT[at : at + size] for at in range(0, len(DOCUMENT), size)]
    assert join(turns) == Joined(DOCUMENT)


def test_a_code_block_after_another_is_not_a_fence_that_is_opened_again() -> None:
    text = "```sh\nmake run\n```\n\n```sh\nmake test\n```\n"
    for cut in range(1, len(text)):
        assert join([text[:cut], text[cut:]]).text == text


REPEATED = {
    "rows of a table": "| the same | row | again and again |\n" * 8,
    "boxes of a checklist": "- [ ] write the test before the code\n" * 5,
    "two lines of a kind": "- ask the village council first\n" * 2 + "Done.\n",
    "a refrain": "So it goes, and on it goes.\n\nOne.\n\nSo it goes, and on it goes.\n\nTwo.\n\n"
    * 2,
    "a run": "a" * 300,
    "words in a run": "ha ha " * 60,
    "lines of code": "    assert first(x) == second(y)\n" * 6,
    "numbers": "| 1 | 2 | 3 | 1 | 2 | 3 | 1 | 2 | 3 | 1 | 2 | 3 |\n",
    "rules": "\n---\n" * 30,
    "cells of a row": "| a cut | raw connection reset error | raw connection reset error |\n",
    "words about going on": '["Go on.", "Please continue exactly where you stopped."]\n',
}


@each_case("kind", REPEATED)
def test_what_a_text_repeats_by_itself_stays(kind: str) -> None:
    text = f"# Lines\n\n{REPEATED[kind]}"
    wrong = [cut for cut in range(len(text) + 1) if join([text[:cut], text[cut:]]).text != text]
    assert wrong == []


PIECES = [
    *(DOCUMENT[at : at + size] for at in range(0, len(DOCUMENT), 97) for size in (5, 130, 700)),
    "",
    "\n\n",
    "Continuing from where I left off:\n\n",
    "```python\n",
]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=3).map("".join), max_size=5))
def test_nothing_but_the_beginning_of_a_turn_is_ever_left_out(turns: list[str]) -> None:
    text = ""
    for number in range(len(turns)):
        joined = join(turns[: number + 1]).text
        assert joined.startswith(text)
        assert turns[number].endswith(joined[len(text) :].lstrip("\n"))
        text = joined


# -- a model that says something twice ------------------------------------------------------------

HEAD, REST = DOCUMENT[:500], DOCUMENT[500:]


@each_case("cut", range(200, 1_100, 7))
@each_case("chars", [40, 150])
def test_words_within_a_line_that_are_said_again_are_left_out(cut: int, chars: int) -> None:
    """A model that starts over does so at a word."""
    text = "A plain paragraph of words, each of which is another: " + " ".join(
        f"word{number} and {letter * 3}{number}"
        for number, letter in zip(range(90), itertools.cycle("bcdfghjklmnpqrstvwz"), strict=False)
    )
    begin = text.rfind(" ", 0, cut - chars) + 1
    assert join([text[:cut], text[begin:]]) == Joined(text, (OVERLAP,))


@pytest.mark.parametrize("lines", [2, 3, 6])
def test_lines_that_are_said_again_are_left_out(lines: int) -> None:
    cut = DOCUMENT.index("writes the reminders") + 5
    begin = DOCUMENT.rfind("\n", 0, cut)
    for _ in range(lines - 1):
        begin = DOCUMENT.rfind("\n", 0, begin)
    joined = join([DOCUMENT[:cut], DOCUMENT[begin + 1 :]])
    assert joined == Joined(DOCUMENT, (OVERLAP,))


def test_blanks_at_the_ends_of_lines_do_not_hide_what_is_said_again() -> None:
    said = "The first line of it is here.  \nThe second line was cut in the mid"
    again = "The first line of it is here.\nThe second line was cut in the middle.\n"
    joined = join([f"Before.\n{said}", again])
    assert joined == Joined(f"Before.\n{said}dle.\n", (OVERLAP,))


@pytest.mark.parametrize("cut", [300, 500, 900])
def test_a_turn_that_begins_all_over_again_goes_on_where_the_text_stopped(cut: int) -> None:
    assert join([DOCUMENT[:cut], DOCUMENT]) == Joined(DOCUMENT, (RESTART,), restarts=1)
    assert join([DOCUMENT[:cut], f"\n\n{DOCUMENT}"]) == Joined(DOCUMENT, (RESTART,), restarts=1)


def test_a_turn_that_begins_all_over_again_and_gets_less_far_adds_nothing() -> None:
    assert join([DOCUMENT[:600], DOCUMENT[:400]]).text == DOCUMENT[:600]


def test_a_turn_that_begins_alike_and_goes_another_way_is_added_from_there_in_whole_lines() -> None:
    other = DOCUMENT[:250] + "and something else.\n\nThe end.\n"
    joined = join([DOCUMENT[:600], other])
    begin = DOCUMENT.rfind("\n", 0, 250) + 1
    assert joined == Joined(f"{DOCUMENT[:600]}\n{other[begin:]}", (RESTART,), restarts=1)


def test_every_new_beginning_is_counted() -> None:
    joined = join([DOCUMENT[:400], DOCUMENT[:500], DOCUMENT])
    assert joined == Joined(DOCUMENT, (RESTART,), restarts=2)


OPENINGS = [
    "Continuing from where I left off:\n\n",
    "Here is the rest of the document:\n",
    "Here's the remainder:\n\n",
    "Sure, I'll continue exactly where I stopped.\n\n",
    "*(continued)*\n\n",
    "**Continuation:**\n",
]


@each_case("opening", OPENINGS)
def test_a_line_about_going_on_is_left_out_where_a_line_was_cut(opening: str) -> None:
    cut = DOCUMENT.index("writes the rem") + 9
    assert join([DOCUMENT[:cut], opening + DOCUMENT[cut:]]) == Joined(DOCUMENT, (PREAMBLE,))


@each_case("opening", OPENINGS)
def test_after_a_line_about_going_on_a_line_may_be_begun_once_more(opening: str) -> None:
    cut = DOCUMENT.index("writes the rem") + 9
    begin = DOCUMENT.rfind("\n", 0, cut) + 1
    joined = join([DOCUMENT[:cut], opening + DOCUMENT[begin:]])
    assert joined.text == DOCUMENT
    assert joined.notes[0] == PREAMBLE


def test_after_a_line_about_going_on_a_new_paragraph_stays_one() -> None:
    said, rest = "The plan is whole.", "## Risks\n\nNone.\n"
    joined = join([said, f"{OPENINGS[0]}{rest}"])
    assert joined == Joined(f"{said}\n\n{rest}", (PREAMBLE,))


@each_case("opening", OPENINGS)
def test_a_line_about_going_on_stays_where_it_may_be_a_line_of_the_text(opening: str) -> None:
    assert join(["One line.\n", f"{opening}Another.\n"]) == Joined(
        f"One line.\n{opening}Another.\n"
    )


def test_a_sentence_that_happens_to_speak_of_continuing_stays() -> None:
    turns = ["- ", "Continuing education for volunteers.\n- Rest days.\n"]
    assert join(turns) == Joined("".join(turns))


def test_a_fence_that_is_opened_once_more_is_left_out() -> None:
    cut = DOCUMENT.index("        raise UnknownHall")
    joined = join([DOCUMENT[:cut], f"```python\n{DOCUMENT[cut:]}"])
    assert joined == Joined(DOCUMENT, (FENCE,))
    begin, cut = cut, cut + 13
    joined = join([DOCUMENT[:cut], f"```python\n{DOCUMENT[begin:]}"])
    assert joined == Joined(DOCUMENT, (FENCE,)), "the line that was cut is begun once more, too"


def test_another_fence_within_an_open_one_stays() -> None:
    text = "```markdown\n# Title\n\n```python\nx = 1\n```\n"
    cut = text.index("```python")
    assert join([text[:cut], text[cut:]]) == Joined(text)


def test_joining_takes_time_that_grows_with_the_text_alone() -> None:
    for text in ("a" * 200_000, "ab " * 60_000, "word here now " * 20_000, "```json\n" * 20_000):
        assert join([text, text]).text.startswith(text)


# -- what a text looks like where it stops --------------------------------------------------------


@each_case(
    ("text", "words"),
    [
        ("Half a wo", "perhaps of a word"),
        ("A word and ", "after a blank"),
        ("A line.\n", "after the line break"),
        ("| a | b", "row of a table"),
        ("A list (", "in the middle of a line"),
        ("```python\nx = ", "inside a code block that is still open"),
    ],
)
def test_the_place_where_a_text_stops_is_put_into_words(text: str, words: str) -> None:
    assert words in describe_end(text)


def test_a_fence_is_open_until_it_is_closed_by_one_of_its_kind() -> None:
    assert find_open_fence("```python\nx") == "```python"
    assert find_open_fence("````md\n```\n") == "````md"
    assert find_open_fence("~~~\n```\n~~~\n") is None
    assert find_open_fence("text\n```") is None, "a line that is cut may become anything"


@each_case("text", ["Done.\n", "| a |\n", "`code`", "```\nx\n```\n", "```\nx\n```", "“Yes!”"])
def test_a_text_can_end_where_nothing_hangs(text: str) -> None:
    assert seems_finished(text)


@each_case("text", ["", "Half a wo", "and then,", "namely:\n", "```\nx = 1;\n"])
def test_a_text_cannot_end_where_something_hangs(text: str) -> None:
    assert not seems_finished(text)


@each_case(
    "text",
    [
        "```python\nx = 1\n",
        "Words.\n\n~~~\n{",
        '{"plan": [1, 2',
        ' {\n  "plan": "a \\" }',
        '[{"step": "one"}, {"step"',
    ],
)
def test_what_was_opened_and_not_closed_is_seen(text: str) -> None:
    assert is_unclosed(text)


@each_case(
    "text",
    [
        "",
        "Done.\n",
        "```\nx\n```",
        '{"plan": "}", "steps": []}\nThat is all {',
        '["one", "two"]',
        "[a link](there) {",
        "{ a brace in prose",
    ],
)
def test_what_is_closed_or_needs_no_closing_is_not_taken_for_open(text: str) -> None:
    assert not is_unclosed(text)


def test_a_turn_says_the_same_if_nearly_every_line_of_it_was_said_just_before() -> None:
    lines = [
        f"{number}. Ask {name} for the key of the hall" for number, name in enumerate("abcdefgh")
    ]
    before = "\n".join(lines)
    assert says_the_same(before, before)
    assert says_the_same(before, "\n".join(lines[1:] + lines[:1]))
    assert not says_the_same(before, "\n".join(lines[:4] + ["Something new is said here."] * 4))
    assert not says_the_same("aaaa", "aaaa")


def test_random_words_of_a_few_letters_are_joined_as_they_are() -> None:
    chance = random.Random(7)
    for _ in range(300):
        text = "".join(chance.choice("ab \n|-") for _ in range(200))
        cut = chance.randrange(200)
        assert join([text[:cut], text[cut:]]).text == text
    assert ECHO_CHARS_MIN == 24


# Headings at a seam -------------------------------------------------------------------------------


@each_case(
    ("text", "turn"),
    [
        ("It allows users to", "## Technical approach\nThe"),
        ("It ends here.", "# Risks\n\nMany."),
        ("- an item of a list", "### Detail\nOne."),
        ("**In bold:**", "## Risks\nMany."),
    ],
)
def test_a_heading_at_the_start_of_a_turn_begins_on_its_own_line(text: str, turn: str) -> None:
    assert join([text, turn]) == Joined(f"{text}\n\n{turn}", (HEADING_SEAM,))


@each_case(
    ("text", "turn"),
    [
        ("# ", "## odd\nText."),
        ("\n#", "# Risks\nMany."),
        ("\n\n", "## Risks\nMany."),
        ("We write C", "# and Python\nhere."),
        ("under the heading `", "## Risks` it says\nmuch."),
        ("| a | ", "## b | c |\n"),
        ("see the section ", "## Risks for more.\nMany."),
        ("```sh\nmake all ", "## build it\n```\n"),
        ("It allows users to", "##"),
        ("It allows users to", "## a heading without its end"),
    ],
)
def test_what_may_belong_to_the_line_stays_in_it(text: str, turn: str) -> None:
    assert join([text, turn]) == Joined(f"{text}{turn}")
