"""A text becomes sentences, items, rows and code, each where it stands."""

from dialectic.retrieval.passages import Kind, split_passages
from tests.cases import each_case


def texts_of(text: str) -> list[str]:
    return [text[one.start : one.end] for one in split_passages(text).passages]


@each_case(
    ("text", "passages"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said “no.” She left.", ["He said “no.”", "She left."]),
        ("Ask Dr. Lind, e.g. on p. 7. Then go.", ["Ask Dr. Lind, e.g. on p. 7.", "Then go."]),
        ("It costs 3.50 a day. No more.", ["It costs 3.50 a day.", "No more."]),
        ("最初の文。次の文。", ["最初の文。", "次の文。"]),
        ("A line\nand its rest. More.\n\nNext.", ["A line\nand its rest.", "More.", "Next."]),
        ("- one\n- two\n  goes on\n1. three", ["- one", "- two\n  goes on", "1. three"]),
        ("  - indented", ["  - indented"]),
        ("| a |\n|---|\n| 1 |\n| 2 |\n", ["| 1 |", "| 2 |"]),
        ("a\n\n---\n\nb", ["a", "b"]),
        ("Say ``` here ``` inline.", ["Say ``` here ``` inline."]),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_a_text_falls_into_its_smallest_parts(text: str, passages: list[str]) -> None:
    assert texts_of(text) == passages


def test_code_stays_in_its_fence_and_is_cut_at_blank_lines() -> None:
    text = "```py\na = 1\nb = 2\n\nc = 3\n```\nAfter."
    found = split_passages(text)
    assert texts_of(text) == ["a = 1\nb = 2", "c = 3", "After."]
    assert [one.kind for one in found.passages] == [Kind.CODE, Kind.CODE, Kind.PROSE]
    fence = found.frames[found.passages[0].frames[-1]]
    assert (text[fence.start : fence.end], fence.closing) == ("```py", "```")


def test_what_looks_like_a_heading_in_code_is_code() -> None:
    found = split_passages("~~~\n# not a heading\n```\n~~~\n")
    assert [one.kind for one in found.passages] == [Kind.CODE]


def test_an_open_fence_is_closed_by_its_own_signs() -> None:
    found = split_passages("````\nx")
    assert found.frames[0].closing == "````"


def test_a_passage_knows_the_headings_above_it_and_no_others() -> None:
    text = "# A\n\n## B\n\nunder b\n\n## C\n\nunder c\n\n# D\n\nunder d"
    found = split_passages(text)
    paths = [
        [text[found.frames[place].start : found.frames[place].end] for place in one.frames]
        for one in found.passages
    ]
    assert paths == [["# A", "## B"], ["# A", "## C"], ["# D"]]


def test_what_never_ends_is_cut_between_words_and_otherwise_anywhere() -> None:
    parts = texts_of("word " * 400)
    assert len(parts) > 3
    assert all(len(part) <= 480 and set(part.split()) == {"word"} for part in parts)
    assert "".join(texts_of("x" * 2_000)) == "x" * 2_000
