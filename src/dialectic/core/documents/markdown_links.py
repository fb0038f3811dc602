"""Names and links in the Markdown pages that describe a project. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

_MARKS = re.compile(r"([\\`*_\[\]<>#|!])")
_LABEL_MARKS = re.compile(r"([\\\[\]<>`])")


def escape_markdown(text: str) -> str:
    """Put a name on one line and escape Markdown."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def link_file(slug: str, path: str, label: str | None = None) -> str:
    """Link from the project's folder to a file in it, by default by its name.

    People name the files in the work folders: what would end or begin a link is escaped.
    """
    inner = path.removeprefix(f"{slug}/")
    shown = inner.rpartition("/")[2] if label is None else " ".join(label.split())
    escaped = _LABEL_MARKS.sub(r"\\\1", shown)
    return f"[{escaped}]({quote(inner)})"
