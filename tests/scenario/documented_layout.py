"""docs/layout.md as patterns: every line of its tables, ready to be held against a real path."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layout.md"
ITERATION_FOLDER = "{project}/session_{id}/iteration_{N}/"
STAGE_FOLDER = f"{ITERATION_FOLDER}{{k}}_{{stage}}/"
WORDS = {
    **dict.fromkeys(("project", "name", "model", "source", "stage"), r"[a-z0-9-]+"),
    **dict.fromkeys(("N", "k", "n", "version"), r"[1-9][0-9]*"),
    "turn": r"(?:0|[1-9][0-9]*)",
    "id": r"[0-9a-f]{8}",
    "kind": r"[a-z_]+",
    "key": r"[a-z0-9-]+",
    "type": r"(?!final_synthesis)[a-z][a-z_-]*",
    "extension": r"[a-z0-9]+",
}


def read_table(heading: str) -> list[str]:
    """The first column of the table below a heading."""
    part = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \| ", part, re.MULTILINE)


def list_patterns() -> dict[str, re.Pattern[str]]:
    """Every place that the page names, with each base name spelled out."""
    bases = read_table("Base names")[1:]
    places = read_table("The project")
    places += [f"{ITERATION_FOLDER}{place}" for place in read_table("An iteration")]
    for place in read_table("A stage"):
        full = f"{STAGE_FOLDER}{place}"
        places += [full.replace("{base}", base) for base in bases] if "{base}" in full else [full]
    return {place: _compile(place) for place in places}


def _compile(place: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", place)
    return re.compile(
        "".join(WORDS[part] if n % 2 else re.escape(part) for n, part in enumerate(parts))
    )
