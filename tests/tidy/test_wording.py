"""Phrases that made people stop in trials stay out of the program and its documents.

Each has a plainer one in its place; the tests of the command that says it have the new words.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import each_case

ROOT = Path(__file__).resolve().parents[2]
# The old phrase, and what is said instead.
PHRASES = {
    "^C leaves them to others": "what still runs, of which session",
    "were paid for and their answers lost": "what the second ^C dropped, and what it may cost",
    "Make the calls that were too dear": "Approve the calls above the limit",
    "Put in $": "what was added, and what is left",
    "which nobody gives": "uses an unknown variable; the known ones",
    "nothing to tell of them": "configured, no recent errors",
    "at this moment, and is too short": "now matches …, but is too short",
    "cannot be had": "is already in use",
    "later prompts tell it": "later prompts include the rating",
    "exits 0 also if they do": "exits 0 even if they differ",
    "Serve the API, and work": "Serve the API and run a worker",
    "again breaks it off": "again stops now",
    "knows you there": "holds the token",
    "is gone on with": "is continued",
    "acts on this machine alone": "works only on this machine",
    "things that the process can do without": "Skip N parts that --dry-run lists",
    "Even with all left out": "The smallest version of this run",
}


def read_texts() -> dict[Path, str]:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    # A phrase may be split over two lines, or over two parts of a literal.
    return {
        path: re.sub(r'"?\s*\n\s*f?"?', " ", path.read_text("utf-8")).replace("  ", " ")
        for path in sources
    }


TEXTS = read_texts()


@each_case("phrase", PHRASES)
def test_a_phrase_that_made_people_stop_is_not_used(phrase: str) -> None:
    places = [str(path.relative_to(ROOT)) for path, text in TEXTS.items() if phrase in text]
    assert places == [], f"say: {PHRASES[phrase]}"


def test_states_are_told_in_words_not_in_identifiers() -> None:
    shown = [ROOT / "src" / "dialectic" / "cli" / "commands" / "sessions.py"]
    for path in shown:
        assert ".status}" not in path.read_text("utf-8").replace("stage.status}", "")
