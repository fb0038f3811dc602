"""Tables for people, in Markdown, and the same as JSON. Knows nothing of how figures come about."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bench.measure import Failure, Figures, Measure

PACKAGES = (
    "dialectic-engine",
    "asyncpg",
    "pgqueuer",
    "procrastinate",
    "dbos",
    "langgraph",
    "langgraph-checkpoint-postgres",
    "langchain-classic",
    "psycopg",
    "chromadb",
    "lancedb",
    "uvloop",
    "sse-starlette",
)
MARKS = {True: "met", False: "MISSED", None: "unknown"}


def describe_run(server_version: str) -> dict[str, Any]:
    """Say what was measured on, in general words."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": {
            "python": platform.python_version(),
            "postgresql": server_version,
            **versions,
        },
    }


def format_run(run: dict[str, Any]) -> str:
    """Build the lines that head a report."""
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    return f"{run['date']}, {run['system']}\n{versions}\n"


def format_measure(figures: Figures) -> str:
    """Build a measure's table, its aims and its notes."""
    measure = figures.measure
    ratios = [name for name in measure.ratios_to if figures.samples(name, _main_metric(measure))]
    head = ["", *(column.head for column in measure.columns), *(f"× {name}" for name in ratios)]
    rows = [
        [
            contender.name,
            *(_cell(figures.value(contender.name, c), c.digits) for c in measure.columns),
            *(_cell(figures.ratio(contender.name, name), 2) for name in ratios),
        ]
        for contender in measure.contenders
    ]
    lines = [f"## {measure.title}", "", *format_table([head, *rows]), ""]
    lines += [
        f"- aim: {verdict.aim}: {verdict.found}, **{MARKS[verdict.met]}**"
        for verdict in measure.judge(figures)
    ]
    lines += [f"- {note}" for note in measure.notes]
    lines += [f"- failed: {failure}" for failure in figures.failures()]
    return "\n".join([*lines, f"- rounds: {len(figures.rounds)}", ""])


def _main_metric(measure: Measure) -> str:
    return measure.columns[0].metric


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Build a Markdown table whose columns are as wide as they need be; the first row heads it."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join([first, *rest])} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return [line(rows[0]), f"|{rule}|", *(line(row) for row in rows[1:])]


def as_json(figures: Figures) -> dict[str, Any]:
    """Build what a program may want to read: every sample, and what was made of them."""
    measure = figures.measure
    return {
        "measure": measure.name,
        "title": measure.title,
        "figures": {
            contender.name: {c.head: figures.value(contender.name, c) for c in measure.columns}
            for contender in measure.contenders
        },
        "ratios": {
            contender.name: {
                name: figures.ratio(contender.name, name) for name in measure.ratios_to
            }
            for contender in measure.contenders
        },
        "aims": [asdict(verdict) for verdict in measure.judge(figures)],
        "rounds": [
            {
                name: {"failed": outcome.reason} if isinstance(outcome, Failure) else dict(outcome)
                for name, outcome in one.items()
            }
            for one in figures.rounds
        ],
    }
