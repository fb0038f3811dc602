"""A document is read back as it was written, whatever it contains."""

from __future__ import annotations

import enum

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from dialectic.core.documents import front_matter
from dialectic.core.documents.front_matter import (
    FRONT_MATTER_CHARS_MAX,
    FieldValue,
    render_document,
    split_document,
)
from dialectic.errors import UsageError
from tests.cases import each_case
from tests.problems import refusing
from tests.properties import examples

HOSTILE_TEXTS = [
    "", " ", "no", "Yes", "y", "on", "null", "~", "true", "012", "0o7", "0x1F", "1e3", "1:30",
    "1.10", "-1", "- item", "-", "---", "...", "a: b", "a:", ": b", "# not a comment", "a #b",
    "'single'", '"double"', "it's", "{a: b}", "[a, b]", "&anchor", "*alias", "!!python/object",
    "|", ">", "%TAG", "@at", "`tick`", "=", "<<", "?", "? key", "2024-01-01", "\n", "a\n---\nb",
    "\r\n", "\ttab", " lead", "trail ", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\ufeff",
    "\ufffe", "🚀", "\U0010ffff", "\u202eabc", "\\", "\\n", "long " * 100, "日本語",
]  # fmt: skip
# A lone surrogate cannot be written to any file; `clean_text` replaces it where text comes in.
texts = st.one_of(st.sampled_from(HOSTILE_TEXTS), st.text())
values: st.SearchStrategy[FieldValue] = st.one_of(
    texts, st.integers(), st.booleans(), st.none(), st.lists(texts, max_size=5)
)
fields = st.dictionaries(texts, values, max_size=6)
bodies = st.one_of(
    texts,
    st.sampled_from(
        [
            "---\n",
            "---\na: b\n---\nc",
            "---",
            "\r\n---\r\n",
            "# Title\r\n\r\ntext",
            "\ufeffbom",
            "\n\n",
        ]
    ),
)


@examples(200)
@given(fields, bodies)
@example({}, "---\nstatus: draft\n---\n")
@example({"---": "---"}, "---")
@example({"n": True, "m": 1}, "")
def test_splitting_undoes_rendering(given_fields: dict[str, FieldValue], body: str) -> None:
    read_fields, read_body = split_document(render_document(given_fields, body))
    assert read_body == body
    assert read_fields == given_fields
    assert list(read_fields) == list(given_fields)
    for name, value in given_fields.items():
        assert type(read_fields[name]) is type(value)


@given(fields)
def test_a_usual_yaml_reader_sees_the_same_fields(given_fields: dict[str, FieldValue]) -> None:
    matter = render_document(given_fields, "").removeprefix("---\n").removesuffix("---\n")
    assert (yaml.safe_load(matter) or {}) == given_fields


@given(fields)
@example({"k" * 127: "a", "k" * 128: "a", "k" * 129: "a", "k" * 300: ["a"]})
@example({"a": "x " * 99, "b": "x " * 101, "c": "", "d": [], "e": [""], "f": ["x " * 200]})
@example({"": "a", "?": 1, "a": True, "b": 1, "c": False, "d": 0, "e": "1", "f": None, "g": "e5"})
def test_fields_written_one_by_one_are_what_the_library_writes_of_all(
    given_fields: dict[str, FieldValue],
) -> None:
    at_once = yaml.dump(
        given_fields,
        Dumper=front_matter._Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=-1,
    )
    # Twice, for the second time most of it is remembered.
    for _ in range(2):
        written = render_document(given_fields, "").removeprefix("---\n").removesuffix("---\n")
        assert written == (at_once if given_fields else "")


def test_fields_keep_their_order_and_stand_on_one_line_each() -> None:
    long = "word " * 50 + "end"
    document = render_document({"z": 1, "title": long, "a": "x: y", "tags": ["b", "a"]}, "# Hi\n")
    assert document == (f"---\nz: 1\ntitle: {long}\na: 'x: y'\ntags:\n- b\n- a\n---\n# Hi\n")


def test_an_enumeration_of_text_is_written_as_text() -> None:
    class Stage(enum.StrEnum):
        THESIS = "thesis"

    assert render_document({"stage": Stage.THESIS}, "") == "---\nstage: thesis\n---\n"


@each_case(
    ("text", "expected"),
    [
        ("status: no", "no"),
        ("status: 012", "012"),
        ("status: 1.10", "1.10"),
        ("status: 2024-01-01", "2024-01-01"),
        ("status: 12", 12),
        ("status: '12'", "12"),
        ("status: true", True),
        ("status: null", None),
        ("status:", None),
        ("status: ''", ""),
        ("status: |\n  a\n  b", "a\nb\n"),
        ("status: [a, 1, no]", ["a", "1", "no"]),
        ("status: !!python/object/apply:os.system [id]", ["id"]),
    ],
)
def test_fields_written_by_hand_keep_what_was_written(text: str, expected: FieldValue) -> None:
    assert split_document(f"---\n{text}\n---\nbody") == ({"status": expected}, "body")


@each_case(
    ("text", "expected"),
    [
        ("", ({}, "")),
        ("no front matter", ({}, "no front matter")),
        ("---\nnever closed: true\n", ({}, "---\nnever closed: true\n")),
        ("----\na: b\n---\n", ({}, "----\na: b\n---\n")),
        ("\ufeff---\r\na: b\r\n---\r\nbody\r\n", ({"a": "b"}, "body\r\n")),
        ("---\na: b\n---", ({"a": "b"}, "")),
        ("---\n---\n---\n", ({}, "---\n")),
        ("---\n# only a comment\n---\nx", ({}, "x")),
    ],
)
def test_documents_from_elsewhere_are_read_too(
    text: str, expected: tuple[dict[str, FieldValue], str]
) -> None:
    assert split_document(text) == expected


@each_case(
    ("matter", "reason", "subject"),
    [
        ("just words", "not_a_mapping", None),
        ("- a\n- b", "not_a_mapping", None),
        ("a: b\na: c", "field_twice", "a"),
        ("a: {b: c}", "nested", "line 2"),
        ("a: b\nc: [[d]]", "nested", "line 3"),
        ("a: &x [*x]", "nested", None),
        ("? [a]\n: b", "nested", None),
        ("a: b\nc: 'never closed", "not_yaml", None),
        ("a: \x00", "not_yaml", None),
        ("[" * 60_000, "not_yaml", None),
        ("- " * 30_000, "not_yaml", None),
        ("a: " + "x" * FRONT_MATTER_CHARS_MAX, "too_long", None),
    ],
)
def test_front_matter_that_makes_no_sense_is_refused(
    matter: str, reason: str, subject: str | None
) -> None:
    with refusing(UsageError, reason=reason, subject=subject):
        split_document(f"---\n{matter}\n---\nbody")


def test_fields_without_measure_are_refused_before_they_are_written() -> None:
    with refusing(UsageError, reason="too_long", limit=FRONT_MATTER_CHARS_MAX):
        render_document({"notes": "x" * FRONT_MATTER_CHARS_MAX}, "")
