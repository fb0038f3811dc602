"""A document as HTML: all of its words, and nothing that acts, loads or hides."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.markdown_blocks import NESTING_MAX, PARSED_CHARS_MAX, find_blocks
from dialectic.core.documents.safe_html import (
    _sanitise,
    render_markdown,
    render_plain,
    render_text,
    show_invisible,
)
from tests.cases import each_case
from tests.properties import examples
from tests.unit.core.documents.hostile_texts import HOSTILE
from tests.unit.core.documents.html_page import Page

MARKUP = "<>[]()!\"'`*_#|-=&;:/~\\+.123xX \n\tabjs\u202e\x07\u00e9\U0001f600"
# Without addresses, code fences, entities, boxes and numbers, every letter is to be seen.
PLAIN = "<>*_#|-=+/[]! \nabcdefg\u00e9"


# What a reader must see of hostile texts.
SHOWN = {
    "script": "<script>alert(1)</script>",
    "defined link": "(hidden words)",
    "form": "<input name=password>",
    "attributes that act": "hx-get=/api/v1/me",
    "bidirectional marks": "U+202Ereversed",
    "nested fences": "</code></pre><script>alert(1)</script>",
    "endless words": "W" * 100_000,
    "pixel": "image from evil.example",
    "deep nesting": "deepest",
}


@each_case(("name", "text"), HOSTILE.items(), ids=HOSTILE)
def test_hostile_texts_are_words_alone(name: str, text: str) -> None:
    for rendered in (render_text(text).html, render_plain(text).html, render_markdown(text)):
        Page(rendered).check_harmless()
    assert SHOWN.get(name, "") in Page(render_text(text).html).words


@examples(400)
@given(st.text(alphabet=MARKUP, max_size=200))
def test_no_text_makes_other_tags_than_ours(text: str) -> None:
    rendered = render_text(text)
    page = Page(rendered.html)
    page.check_harmless()
    assert sorted(page.ids) == sorted(block.id for block in rendered.blocks)
    assert list(rendered.blocks) == find_blocks(text)
    assert {entry.id for entry in rendered.toc} <= set(page.ids)


@examples(400)
@given(st.text(alphabet=PLAIN, max_size=200))
def test_every_letter_of_a_text_is_shown_in_its_order(text: str) -> None:
    letters = "".join(re.findall(r"[^\W\d_]", text))
    assert "".join(re.findall(r"[^\W\d_]", Page(render_text(text).html).words)) == letters


@examples(200)
@given(st.text(max_size=200))
def test_any_characters_are_rendered(text: str) -> None:
    Page(render_text(text).html).check_harmless()
    Page(render_plain(text).html).check_harmless()


@examples(200)
@given(st.text(alphabet=MARKUP, max_size=100), st.text(alphabet=MARKUP, max_size=100))
def test_blocks_lie_in_order_and_keep_their_ids_while_the_text_before_them_does(
    head: str, tail: str
) -> None:
    text = f"# First\n\n{head}"
    blocks = find_blocks(text)
    assert [block.id for block in blocks] == [f"b-{n}" for n in range(1, len(blocks) + 1)]
    assert all(0 <= block.start <= block.end <= len(text) for block in blocks)
    assert [block.start for block in blocks] == sorted(block.start for block in blocks)
    assert find_blocks(f"# First\n\n{tail}")[0] == blocks[0]


def test_a_block_is_a_heading_a_paragraph_an_item_a_row_or_code() -> None:
    table = "| F | G |\n|---|--:|\n| H | I |\n"
    text = f"# A\n\nB\nb\n\n- C\n- D\n  - E\n\n{table}\n```py\nJ\n```\n\n> K\n"
    rendered = render_text(text)
    assert [text[block.start : block.end] for block in rendered.blocks] == [
        *("# A", "B\nb", "- C", "- D", "  - E", "| F | G |", "| H | I |", "```py\nJ\n```", "> K")
    ]
    tags = [(tag, a["id"]) for tag, a in Page(rendered.html).tags if "id" in a]
    assert [tag for tag, _ in tags] == "h1 p li li li tr tr pre p".split()


def test_the_contents_are_the_headings_without_their_markup() -> None:
    toc = render_text("# A *b* `c`\n\ntext\n\n### D \u202e ![e](f.png)\n").toc
    assert [(entry.id, entry.level, entry.text) for entry in toc] == [
        ("b-1", 1, "A b c"),
        ("b-3", 3, "D U+202E e"),
    ]


def test_images_become_links_that_name_their_host_and_tasks_have_boxes() -> None:
    assert "[image: a map]" in render_markdown("![a map](map.png)")
    page = Page(render_markdown("![a map](https://maps.example/m.png)"))
    assert "[image from maps.example: a map]" in page.words
    assert page.links == ["https://maps.example/m.png"]
    boxes = [
        a for tag, a in Page(render_markdown("- [ ] Dig\n- [x] Rest\n")).tags if tag == "input"
    ]
    assert ["checked" in box for box in boxes] == [False, True]
    assert [box["aria-label"] for box in boxes] == ["not done", "done"]


def test_links_lead_out_in_a_new_tab_or_to_a_place_in_the_page() -> None:
    anchors = {"a/b c.md": "document-1"}
    inside = Page(render_markdown("[x](a/b%20c.md)", anchors=anchors))
    assert inside.links == ["#document-1"]
    assert "target" not in inside.tags[1][1]
    assert render_markdown("[x](other.md)", anchors=anchors) == "<p>x</p>\n"
    outside = dict(Page(render_markdown("[x](https://example.org)")).tags)["a"]
    assert outside["target"] == "_blank"
    assert outside["rel"] == "noopener noreferrer nofollow"


def test_headings_are_lowered_and_a_huge_or_deep_text_is_shown_as_it_is() -> None:
    assert render_markdown("# A\n\n##### B", level=2) == "<h3>A</h3>\n<h6>B</h6>\n"
    assert render_markdown("<" * (PARSED_CHARS_MAX + 1)).startswith("<pre>&lt;")
    deep = ">" * NESTING_MAX + " deep\n\nMore *words*\n"
    rendered = render_text(deep)
    assert rendered.html.count("<pre") == len(rendered.blocks) == 2
    assert "More *words*" in rendered.html


def test_a_row_with_more_cells_than_the_head_hides_none_of_them() -> None:
    rendered = render_markdown("| a | b |\n|---|---|\n| 1 | 2 | hidden |\n")
    assert "hidden" in rendered
    assert "<table" not in rendered


def test_invisible_characters_are_shown_by_their_numbers() -> None:
    page = Page(render_markdown("a\u202eb `c\x07` &#x2066;"))
    assert "aU+202Eb" in page.words
    assert [a for tag, a in page.tags if tag == "span"] == [{"class": "invisible"}] * 3
    assert show_invisible("a\u202eb\ud800") == "aU+202Eb\ufffd"
    # Joiners of emoji and of scripts that need them have a function.
    assert "invisible" not in render_markdown("\U0001f469\u200d\U0001f680 \u0646\u200c\u0645")


@each_case(
    "raw",
    (
        "<script>x</script>",
        '<p id="top" onclick="x" style="color:red" class="x">y</p>',
        '<a href="javascript:x" target="_self">y</a>',
        '<img src="https://evil.example/x"><iframe></iframe><form><input type="password"></form>',
        '<svg><style>x</style></svg><math></math><!-- x --><base href="//x">',
    ),
)
def test_the_sanitiser_alone_would_stop_what_the_renderer_let_through(raw: str) -> None:
    page = Page(_sanitise(raw))
    assert {tag for tag, _ in page.tags} <= {"p", "a", "input"}
    for tag, attributes in page.tags:
        assert set(attributes) <= {"class", "rel"}, tag
        assert not attributes.get("class")


@each_case(
    ("text", "language"),
    (
        ("The hall is for the people of the village and it is open.", "en"),
        ("Die Halle ist f\u00fcr die Leute und das Dorf, nicht mit der Stadt.", "de"),
        ("Le village et les gens dans la salle pour une soir\u00e9e avec des amis.", "fr"),
        ("\u3053\u308c\u306f\u65e5\u672c\u8a9e\u3067\u3059", "ja"),
        ("x = 1; y = 2", None),
        ("", None),
    ),
)
def test_the_language_is_told_where_it_is_clear(text: str, language: str | None) -> None:
    assert render_text(text).lang == language
