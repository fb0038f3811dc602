"""A page as a browser reads it: its tags, their attributes and its words."""

from __future__ import annotations

import re
from html.parser import HTMLParser

SAFE_TAGS = frozenset(
    "div span h1 h2 h3 h4 h5 h6 p a ul ol li blockquote pre code em strong s br hr input "
    "table thead tbody tr th td".split()
)
SAFE_ATTRIBUTES = frozenset(
    "id class href rel target start type disabled checked aria-label".split()
)
VOID = frozenset("br hr input meta".split())


class Page(HTMLParser):
    """The tags and the words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def links(self) -> list[str]:
        return [str(attributes["href"]) for tag, attributes in self.tags if tag == "a"]

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.tags if "id" in attributes]

    def check_harmless(self) -> None:
        """Nothing in it can act, load anything or look like a part of the page around it."""
        assert self.open == []
        assert {tag for tag, _ in self.tags} <= SAFE_TAGS
        assert {name for _, attributes in self.tags for name in attributes} <= SAFE_ATTRIBUTES
        assert len(set(self.ids)) == len(self.ids)
        assert all(re.fullmatch(r"b-[1-9][0-9]*", name) for name in self.ids)
        for tag, attributes in self.tags:
            if tag == "input":
                assert attributes["type"] == "checkbox"
                assert "disabled" in attributes
            if tag == "a":
                assert re.match(r"#|https?://|mailto:", str(attributes["href"]), re.IGNORECASE)
                assert attributes["rel"] == "noopener noreferrer nofollow"
