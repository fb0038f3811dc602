"""Markdown of models and people as HTML that is safe to open: no scripts, no outside request. Pure.

Raw HTML in a text is shown as text, so the only tags are those that the renderer makes. An image
becomes its description, because a browser would fetch it. A link keeps its target if it is a web or
mail address, or a file that is part of the page; all others become plain text.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

# A longer text is shown as it is.
RENDERED_CHARS_MAX = 2_000_000
_OUTSIDE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_BOX = re.compile(r"\[([ xX])\](?=\s|$)")


def render_markdown(text: str, *, anchors: Mapping[str, str] | None = None, level: int = 0) -> str:
    """Render a text, with its headings lowered by some levels.

    `anchors` maps the paths of files to places in the page.
    """
    if len(text) > RENDERED_CHARS_MAX:
        return f"<pre>{html.escape(text)}</pre>\n"
    parser = _build_parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + level)}"
        if token.children:
            token.children = _make_safe(token.children, anchors or {})
    _show_boxes(tokens)
    rendered: str = parser.renderer.render(tokens, parser.options, {})
    return rendered.replace("<table>", '<div class="table"><table>').replace(
        "</table>", "</table></div>"
    )


@functools.cache
def _build_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _make_safe(tokens: Sequence[Token], anchors: Mapping[str, str]) -> list[Token]:
    """Replace images by their descriptions, and drop links that lead nowhere."""
    safe: list[Token] = []
    dropped: list[bool] = []
    for token in tokens:
        if token.type == "image":
            words = "".join(child.content for child in token.children or ()) or "no description"
            safe.append(Token("text", "", 0, content=f"[image: {words}]"))
        elif token.type == "link_open":
            target = _find_target(str(token.attrs.get("href", "")), anchors)
            dropped.append(target is None)
            if target is not None:
                is_inside = target.startswith("#")
                rel = {} if is_inside else {"rel": "noopener noreferrer nofollow"}
                token.attrs = {"href": target, **rel}
                safe.append(token)
        elif token.type == "link_close":
            if not dropped.pop():
                safe.append(token)
        else:
            safe.append(token)
    return safe


def _find_target(href: str, anchors: Mapping[str, str]) -> str | None:
    if _OUTSIDE.match(href):
        return href
    anchor = anchors.get(unquote(href).removeprefix("./"))
    return None if anchor is None else f"#{anchor}"


def _show_boxes(tokens: Sequence[Token]) -> None:
    """Show the box of a task that can be ticked."""
    for before, token in zip(tokens, tokens[2:], strict=False):
        if before.type != "list_item_open" or token.type != "inline" or not token.children:
            continue
        first = token.children[0]
        if first.type == "text" and (box := _BOX.match(first.content)) is not None:
            mark = "\u2610" if box[1] == " " else "\u2611"
            first.content = mark + first.content[box.end() :]
