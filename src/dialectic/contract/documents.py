"""Requests and responses about documents as people read them: HTML and comparisons. Pure."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from dialectic.contract.base import RequestBody, ResponseBody
from dialectic.core.documents.markdown_blocks import PARSED_CHARS_MAX
from dialectic.core.documents.text_diff import Op, SectionState


class TocEntry(ResponseBody):
    """A heading in a document's table of contents."""

    id: str = Field(description="The id of its block.", examples=["b-12"])
    level: int = Field(ge=1, le=6)
    text: str


class Block(ResponseBody):
    """A heading, a paragraph, a list item, a row of a table, or code, and its place in the text."""

    id: str = Field(
        description="It stays the same while the text before it does.", examples=["b-12"]
    )
    start: int = Field(ge=0, description="In characters (Unicode code points) of the text.")
    end: int = Field(ge=0, description="Behind the last character.")


class RenderedDocument(ResponseBody):
    """A document as HTML that is safe to show: no script, no style, nothing is loaded."""

    html: str
    toc: list[TocEntry]
    blocks: list[Block]
    lang: str | None = Field(
        description="The language of the text; null if it is not clear.", examples=["en"]
    )


class RenderRequest(RequestBody):
    """A text to be rendered; it is not saved."""

    text: str = Field(max_length=PARSED_CHARS_MAX)


class DiffSpan(ResponseBody):
    """A passage that is in both texts, or in one of them."""

    op: Op
    text: str


class DiffSection(ResponseBody):
    """A section of one text or of both."""

    heading: str | None = Field(description="Null for the text before the first heading.")
    level: int = Field(ge=0, le=6, description="0 for the text before the first heading.")
    state: SectionState
    spans: list[DiffSpan] = Field(
        description="`same` and `add` together are the newer text, `same` and `remove` the older."
    )
    is_coarse: bool = Field(
        description="Comparing all its words would take too long: some passages are shown whole."
    )


class DiffWords(ResponseBody):
    """How many words differ."""

    added: int
    removed: int


class DocumentDiff(ResponseBody):
    """What changed from one contribution to another, or from one version to another."""

    before_id: UUID
    after_id: UUID
    sections: list[DiffSection]
    words: DiffWords
