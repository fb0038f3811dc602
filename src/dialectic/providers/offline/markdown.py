"""The pieces of markdown: sentences' ends, lists, tables and quotations. Pure, knows no content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

OPEN, CLOSE = "\u2018", "\u2019"  # single quotation marks, for what stands inside a quotation
_INNER = str.maketrans("“”", OPEN + CLOSE)


def join(items: Sequence[str]) -> str:
    """List items in a sentence."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def upper(text: str) -> str:
    """Begin a sentence with a text."""
    return text[:1].upper() + text[1:]


def lower(text: str) -> str:
    """Go on in a sentence with a text."""
    return text[:1].lower() + text[1:]


def bullets(items: Iterable[str]) -> str:
    """Build a markdown list."""
    return "\n".join(f"- {item}" for item in items)


def numbered(items: Iterable[str]) -> str:
    """Build a numbered markdown list."""
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Build a markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quote(label: str, text: str) -> str:
    """Quote a source by its label; what it quotes itself gets single marks."""
    return f"“{text.translate(_INNER)}” ({label})"


def end(text: str) -> str:
    """Close a sentence that was left open."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def below(heading: str, title: str) -> str:
    """Build a heading one level below another."""
    return f"{'#' * min(6, heading.index(' ') + 1)} {title}"
