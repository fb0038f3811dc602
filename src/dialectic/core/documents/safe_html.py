"""Markdown of models and people as HTML that is safe to open: no scripts, no outside request. Pure.

Raw HTML in a text is shown as text, so the only tags are those that the renderer makes; a sanitiser
then removes whatever is not on the list of tags and attributes. An image becomes a link that names
its host, because a browser would fetch it. A link keeps its target if it is a web or mail address,
or a file that is part of the page; all others become plain text. Control characters, and characters
that change the direction of a text, are shown by their numbers.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dialectic.core.documents.language import find_language
from dialectic.core.documents.markdown_blocks import (
    PREFIX,
    Block,
    list_paragraphs,
    name_blocks,
    parse_markdown,
    repair_halves,
)

# Part of the tags of cached results: raise it with every change of what is rendered.
RENDERER_VERSION = 1
REL = "noopener noreferrer nofollow"
LANGUAGES = (
    "bash c console cpp csharp css csv diff dockerfile elixir go graphql haskell html http ini "
    "java javascript js json jsx kotlin lua makefile markdown md mermaid perl php powershell proto "
    "python py r ruby rust scala sh shell sql swift terraform text toml ts tsx typescript xml "
    "yaml yml zig"
).split()

_OUTSIDE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_BOX = re.compile(r"\[([ xX])\](?=\s|$)")
_ID = re.compile(rf"{PREFIX}[1-9][0-9]*")
# Controls but tab and line ends; embeddings, overrides and isolates; invisible characters that have
# no function in any script.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u200b\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_TAGS = frozenset(
    "h1 h2 h3 h4 h5 h6 p ul ol li blockquote pre code em strong s a hr br div span "
    "table thead tbody tr th td input".split()
)
_WITH_ID = ("h1", "h2", "h3", "h4", "h5", "h6", "p", "li", "pre", "hr", "tr")
_ALIGNED = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}


@dataclass(frozen=True, slots=True)
class TocEntry:
    """A heading in the table of contents."""

    id: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class SafeHtml:
    """A rendered text."""

    html: str
    toc: tuple[TocEntry, ...]
    blocks: tuple[Block, ...]
    lang: str | None


def render_text(text: str) -> SafeHtml:
    """Render a text with the ids of its blocks and its table of contents."""
    blocks, toc, rendered = _render(text, {}, 0, with_ids=True)
    return SafeHtml(rendered, tuple(toc), tuple(blocks), find_language(text))


def render_plain(text: str) -> SafeHtml:
    """Show a text as it is, in a block for each paragraph."""
    blocks, _, rendered = _render_plain(text, with_ids=True)
    return SafeHtml(rendered, (), tuple(blocks), find_language(text))


def render_markdown(text: str, *, anchors: Mapping[str, str] | None = None, level: int = 0) -> str:
    """Render a text as a part of a page: without ids, its headings lowered by some levels.

    `anchors` maps the paths of files to places in the page.
    """
    return _render(text, anchors or {}, level, with_ids=False)[2]


def _render(
    text: str, anchors: Mapping[str, str], level: int, *, with_ids: bool
) -> tuple[list[Block], list[TocEntry], str]:
    tokens = parse_markdown(text)
    if tokens is None:
        return _render_plain(text, with_ids=with_ids)
    blocks = list(name_blocks(tokens, text)) if with_ids else []
    toc = []
    for place, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + level)}"
        if token.type == "heading_open" and with_ids:
            words = show_invisible(" ".join(_read_words(tokens[place + 1].children or ()).split()))
            toc.append(TocEntry(str(token.attrs["id"]), int(token.tag[1]), words))
        if token.type in ("th_open", "td_open"):
            token.attrs = _align(token)
        if token.children:
            token.children = _make_safe(token.children, anchors)
    _show_boxes(tokens)
    writer = _build_writer()
    return blocks, toc, _sanitise(writer.renderer.render(tokens, writer.options, {}))


def _write_fence(_: object, tokens: Sequence[Token], place: int, *__: object) -> str:
    name = (tokens[place].info.split() or [""])[0].lower()
    kind = f' class="language-{name}"' if name in LANGUAGES else ""
    return _write_code(tokens[place], kind)


def _write_code(token: Token, kind: str = "") -> str:
    """Write code, with its id on the outer tag."""
    name = f' id="{token.attrs["id"]}"' if "id" in token.attrs else ""
    return f"<pre{name}><code{kind}>{html.escape(token.content, quote=False)}</code></pre>\n"


@functools.cache
def _build_writer() -> MarkdownIt:
    """Build the renderer of parsed texts."""
    writer = MarkdownIt("commonmark")
    writer.add_render_rule("fence", _write_fence)
    writer.add_render_rule("code_block", lambda _, tokens, place, *__: _write_code(tokens[place]))
    # A table may be wider than the page.
    writer.add_render_rule("table_open", lambda *_: '<div class="table"><table>\n')
    writer.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return writer


def _align(token: Token) -> dict[str, str | int | float]:
    side = _ALIGNED.get(str(token.attrs.get("style", "")))
    return {} if side is None else {"class": side}


# -- the gate --------------------------------------------------------------------------------------


def _sanitise(rendered: str) -> str:
    """Remove everything that is not on the list of tags, attributes and addresses."""
    cleaned: str = _build_cleaner().clean(_mark_invisible(rendered))
    return cleaned


@functools.cache
def _build_cleaner() -> nh3.Cleaner:
    cells = {"left", "center", "right"}
    return nh3.Cleaner(
        tags=set(_TAGS),
        clean_content_tags=set(),
        attributes={"a": {"href"}, "ol": {"start"}, "input": {"checked", "disabled"}}
        | {tag: {"id"} for tag in _WITH_ID},
        attribute_filter=_keep_attribute,
        tag_attribute_values={
            "a": {"target": {"_blank"}},
            "input": {"type": {"checkbox"}, "aria-label": {"done", "not done"}},
        },
        allowed_classes={
            "code": {f"language-{name}" for name in LANGUAGES},
            "div": {"table"},
            "span": {"invisible"},
            "li": {"task"},
            "th": cells,
            "td": cells,
        },
        url_schemes={"http", "https", "mailto"},
        link_rel=REL,
        strip_comments=True,
    )


def _keep_attribute(_tag: str, name: str, value: str) -> str | None:
    """Keep an attribute, unless it is an id that is not ours."""
    return None if name == "id" and _ID.fullmatch(value) is None else value


def _mark_invisible(rendered: str) -> str:
    """Show invisible characters by their numbers. The renderer leaves none in an attribute."""
    return _INVISIBLE.sub(
        lambda found: f'<span class="invisible">U+{ord(found[0]):04X}</span>', rendered
    )


def show_invisible(text: str) -> str:
    """Show the invisible characters of a name or a title by their numbers."""
    return _INVISIBLE.sub(lambda found: f"U+{ord(found[0]):04X}", repair_halves(text))


def _render_plain(text: str, *, with_ids: bool) -> tuple[list[Block], list[TocEntry], str]:
    """Show a text as it is, in a block for each paragraph."""
    text = repair_halves(text)
    blocks = list_paragraphs(text)
    lines = []
    for block in blocks:
        name = f' id="{block.id}"' if with_ids else ""
        lines.append(f"<pre{name}>{html.escape(text[block.start : block.end], quote=False)}</pre>")
    return (blocks if with_ids else []), [], _sanitise("\n".join(lines) + "\n")


# -- inside of blocks ------------------------------------------------------------------------------


def _make_safe(tokens: Sequence[Token], anchors: Mapping[str, str]) -> list[Token]:
    """Replace images by links that name their host, and drop links that lead nowhere."""
    safe: list[Token] = []
    dropped: list[bool] = []
    for token in tokens:
        if token.type == "image":
            safe += _replace_image(token, is_in_link=not all(dropped))
        elif token.type == "link_open":
            target = _find_target(str(token.attrs.get("href", "")), anchors)
            dropped.append(target is None)
            if target is not None:
                token.attrs = _build_link(target)
                safe.append(token)
        elif token.type == "link_close":
            if not dropped.pop():
                safe.append(token)
        else:
            safe.append(token)
    return safe


def _replace_image(token: Token, *, is_in_link: bool) -> list[Token]:
    words = _read_words(token.children or ()) or "no description"
    target = _find_target(str(token.attrs.get("src", "")), {})
    host = None if target is None else urlsplit(target).hostname
    shown = f"[image: {words}]" if host is None else f"[image from {host}: {words}]"
    text = Token("text", "", 0, content=shown)
    if target is None or is_in_link:
        return [text]
    link = Token("link_open", "a", 1, attrs=_build_link(target))
    return [link, text, Token("link_close", "a", -1)]


def _build_link(target: str) -> dict[str, str | int | float]:
    return {"href": target} if target.startswith("#") else {"href": target, "target": "_blank"}


def _find_target(href: str, anchors: Mapping[str, str]) -> str | None:
    if _OUTSIDE.match(href):
        return href if _is_address(href) else None
    anchor = anchors.get(unquote(href).removeprefix("./"))
    return None if anchor is None else f"#{anchor}"


def _is_address(href: str) -> bool:
    try:
        return bool(urlsplit(href).hostname) or href[:7].lower() == "mailto:"
    except ValueError:
        return False


def _read_words(tokens: Sequence[Token]) -> str:
    """Read the words of a line without its markup."""
    words = []
    for token in tokens:
        if token.children:
            words.append(_read_words(token.children))
        elif token.type in ("softbreak", "hardbreak"):
            words.append(" ")
        else:
            words.append(token.content)
    return "".join(words)


def _show_boxes(tokens: Sequence[Token]) -> None:
    """Show the box of a task, which cannot be ticked here."""
    for before, token in zip(tokens, tokens[2:], strict=False):
        if before.type != "list_item_open" or token.type != "inline" or not token.children:
            continue
        first = token.children[0]
        if first.type == "text" and (box := _BOX.match(first.content)) is not None:
            before.attrs["class"] = "task"
            is_open = box[1] == " "
            state = 'aria-label="not done"' if is_open else 'aria-label="done" checked=""'
            mark = f'<input type="checkbox" disabled="" {state}>'
            first.content = first.content[box.end() :]
            token.children.insert(0, Token("html_inline", "", 0, content=mark))
