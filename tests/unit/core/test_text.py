"""Text that enters is made fit to store and to read, and what was taken out is told."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core import text as cleaning
from dialectic.core.text import clean_line, clean_part, clean_text
from tests.cases import each_case
from tests.properties import examples

ZWSP, ZWNJ, ZWJ, LRM, RLM = "\u200b", "\u200c", "\u200d", "\u200e", "\u200f"
RLO, PDF, LRI, PDI = "\u202e", "\u202c", "\u2066", "\u2069"
VS15, VS16, VS17 = "\ufe0e", "\ufe0f", "\U000e0100"
BOM = "\ufeff"
KA, VIRAMA, SSA = "\u0915", "\u094d", "\u0937"  # Devanagari
MEEM, YEH, HEH = "\u0645", "\u06cc", "\u0647"  # Persian
SPECIALS = [
    ZWSP, ZWNJ, ZWJ, LRM, RLM, RLO, PDF, LRI, PDI, VS15, VS16, VS17, BOM, KA, VIRAMA, SSA, MEEM,
    YEH, "\0", "\r", "\n", "a", "1", "\u20e3", "\ud83d", "\ude00", "\ud800", "\udb40", "\udc41",
    "❤", "👩", "💻", "🏽", "葛", "\U000e0041", "\u00ad", "\u061c", "\u180e", "\u1820", " ",
]  # fmt: skip
hostile_texts = st.one_of(
    st.lists(st.sampled_from(SPECIALS), max_size=20).map("".join),
    st.text(st.characters(codec=None)),
)


@each_case(
    "text",
    [
        "",
        "plain text\n\twith a tab\n",
        "Grüße, 日本語, العربية, עברית, ไทย",
        f"👩{ZWJ}💻 and ❤{VS16}{ZWJ}🔥 and 👩🏽{ZWJ}🚀",
        f"\u260e{VS15} \u260e{VS16} 1{VS16}\u20e3 #{VS16}\u20e3",
        f"{MEEM}{YEH}{ZWNJ}{MEEM}",
        f"PDF{ZWNJ}{HEH}{MEEM}",
        f"{HEH}{ZWJ}. {MEEM}",
        f"{KA}{VIRAMA}{ZWJ}{SSA} {KA}{VIRAMA}{ZWNJ}{SSA} {KA}{VIRAMA}{ZWJ}",
        f"\u05d0{RLM}! {LRM}\u05d1",
        f"葛{VS17}城市",
        "\u1820\u180e\u1821",
        "\ufffd stays",
    ],
)
def test_text_that_people_write_is_left_alone(text: str) -> None:
    assert clean_text(text) == (text, [])


@each_case(
    ("text", "cleaned", "notes"),
    [
        ("a\0b\0", "ab", ["removed 2 NUL characters"]),
        ("one\r\ntwo\rthree\n", "one\ntwo\nthree\n", []),
        (f"{BOM}text", "text", ["removed 1 byte order mark"]),
        (f"te{BOM}xt", "text", ["removed 1 zero-width character"]),
        (f"i{ZWSP}gn{ZWJ}o{ZWNJ}re{RLM}", "ignore", ["removed 4 zero-width characters"]),
        ("soft\u00adhyphen", "softhyphen", ["removed 1 zero-width character"]),
        (f"{RLO}txt.exe{PDF}", "txt.exe", ["removed 2 text direction controls"]),
        (f"{LRI}a{PDI}", "a", ["removed 2 text direction controls"]),
        ("hi" + "".join(chr(0xE0000 + ord(c)) for c in "obey"), "hi",
         ["removed 4 invisible tag characters"]),
        ("lone \ud800 half", "lone \ufffd half", ["repaired 1 broken character"]),
        ("\udc80\udc81", "\ufffd\ufffd", ["repaired 2 broken characters"]),
        ("\ud83d\ude00", "\U0001f600", ["repaired 1 broken character"]),
        ("a\udb40\udc41", "a",
         ["repaired 1 broken character", "removed 1 invisible tag character"]),
        (f"a{VS16}b{VS17}c\ufe00", "abc", ["removed 3 variation selectors"]),
        (f"1{VS16}2", "12", ["removed 1 variation selector"]),
        (f"\U0001f600{VS16}{VS17}{VS17}", f"\U0001f600{VS16}", ["removed 2 variation selectors"]),
        (f"{MEEM}{ZWNJ * 3}{YEH}", f"{MEEM}{ZWNJ}{YEH}", ["removed 2 zero-width characters"]),
        (f"{MEEM}{ZWNJ}{VS16}{ZWNJ}{YEH}", f"{MEEM}{ZWNJ}{YEH}",
         ["removed 1 variation selector", "removed 1 zero-width character"]),
        (f"{MEEM}{ZWSP}{ZWNJ}{YEH}", f"{MEEM}{ZWNJ}{YEH}", ["removed 1 zero-width character"]),
        (f"\U0001f600{ZWJ}a", "\U0001f600a", ["removed 1 zero-width character"]),
        (f"1{ZWJ}2", "12", ["removed 1 zero-width character"]),
    ],
)  # fmt: skip
def test_invisible_characters_are_removed_and_noted(
    text: str, cleaned: str, notes: list[str]
) -> None:
    assert clean_text(text) == (cleaned, notes)


@examples(200)
@given(hostile_texts)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    cleaned, _ = clean_text(text)
    assert clean_text(cleaned) == (cleaned, [])


@examples(200)
@given(hostile_texts)
def test_clean_text_can_be_stored_and_shows_no_control_of_direction(text: str) -> None:
    cleaned, notes = clean_text(text)
    assert cleaned.encode().decode() == cleaned
    assert not set(cleaned) & {"\0", "\r", ZWSP, BOM, RLO, PDF, LRI, PDI, "\U000e0041"}
    assert bool(notes) == (cleaned != text.replace("\r\n", "\n").replace("\r", "\n"))


@examples(200)
@given(hostile_texts.map(lambda text: text.encode("utf-8", "replace").decode()), st.data())
def test_it_does_not_matter_where_a_text_was_cut_in_parts(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    bounds = [0, *cuts, len(text)]
    parts = [clean_part(text[a:b])[0] for a, b in pairwise(bounds)]
    assert clean_text("".join(parts))[0] == clean_text(text)[0]


@examples(200)
@given(hostile_texts)
def test_a_part_can_be_stored_and_is_clean_within(text: str) -> None:
    part, _ = clean_part(text)
    assert part.encode().decode() == part
    assert "\0" not in part
    assert clean_part(part) == (part, [])


def test_the_quick_look_passes_over_nothing_that_is_to_be_taken_out() -> None:
    everything = "".join(map(chr, range(0x110000)))
    harmless = cleaning._SUSPECT.sub("", everything)
    # The first character is suspect, so all of the text is looked through.
    cleaned, notes = clean_text(f"\0{harmless}")
    assert cleaned == harmless.replace("\r", "\n")
    assert notes == ["removed 1 NUL character"]


@given(st.text(st.characters(codec="ascii", exclude_characters="\0\r")))
def test_plain_ascii_is_never_touched(text: str) -> None:
    assert clean_text(text) == (text, [])


@each_case(
    ("given", "expected"),
    [
        ("  a \t b\n\nc ", "a b c"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x07bell\x7f and \x9b1m", "bell and 1m"),
        ("a\x85b\x0bc\x1cd", "a b c d"),
        ("\u202eevil\u200b", "evil"),
        ("\x00\x1b", ""),
    ],
)
def test_a_line_holds_nothing_that_controls_a_terminal(given: str, expected: str) -> None:
    assert clean_line(given) == expected
    assert clean_line(expected) == expected
