"""What an experiment saw against what was promised. Knows nothing of engines or databases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SHOWN_MAX = 3
SHOWN_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and what was seen of it."""

    name: str
    wanted: str
    seen: str
    held: bool


@dataclass(slots=True)
class Report:
    """An experiment under way, and in the end its verdict."""

    name: str
    seed: int
    is_quiet: bool = False
    # Whether it counts as a breach that chance never led to what was to be tried.
    needs_coverage: bool = True
    # A home with a database that is up to date and a server that is down: laboratories copy it.
    made_home: Path | None = None
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    elapsed_s: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    @property
    def held(self) -> bool:
        return bool(self.checks) and all(check.held for check in self.checks)

    @property
    def breaches(self) -> list[str]:
        return [check.name for check in self.checks if not check.held]

    def say(self, text: str) -> None:
        """Tell what is being done, as it is done."""
        if not self.is_quiet:
            print(f"[{self.name:<10} {time.monotonic() - self._started:6.1f} s] {text}", flush=True)

    def note(self, name: str, value: object) -> None:
        """Keep a figure that promises nothing."""
        self.facts[name] = str(value)

    def expect(self, name: str, seen: object, wanted: object) -> None:
        """Promise that two values are equal."""
        self._add(Check(name, str(wanted), str(seen), seen == wanted))

    def expect_none(self, name: str, found: Sequence[object]) -> None:
        """Promise that nothing of a kind is found; the first few that are found are named."""
        seen = str(len(found))
        if found:
            shown = "; ".join(" ".join(str(thing).split()) for thing in found[:SHOWN_MAX])
            seen += f": {shown}"[:SHOWN_CHARS_MAX] + (" …" if len(found) > SHOWN_MAX else "")
        self._add(Check(name, "0", seen, not found))

    def expect_at_most(self, name: str, seen: float, limit: float, unit: str = "") -> None:
        self._add(Check(name, f"≤ {limit:g}{unit}", f"{seen:g}{unit}", seen <= limit))

    def expect_at_least(self, name: str, seen: float, limit: float, unit: str = "") -> None:
        self._add(Check(name, f"≥ {limit:g}{unit}", f"{seen:g}{unit}", seen >= limit))

    def expect_coverage(self, name: str, seen: int, limit: int) -> None:
        """Promise that something was really tried; in a few seconds chance may not lead to it."""
        if self.needs_coverage:
            self.expect_at_least(name, seen, limit)
        else:
            self.note(name, seen)

    def finish(self) -> Report:
        self.elapsed_s = time.monotonic() - self._started
        return self

    def _add(self, check: Check) -> None:
        self.checks.append(check)
        if not check.held:
            self.say(f"BREACH {check.name}: wanted {check.wanted}, saw {check.seen}")


def render_table(reports: Sequence[Report]) -> str:
    """Build the table of verdicts, with the figures of each experiment above its promises."""
    name_width = max(len(c.name) for r in reports for c in r.checks)
    wanted_width = max(len(c.wanted) for r in reports for c in r.checks)
    lines = []
    for report in reports:
        verdict = "held" if report.held else "BREACHED"
        lines.append(f"{report.name}  seed {report.seed}  {report.elapsed_s:.1f} s  {verdict}")
        lines += [f"    {name}: {value}" for name, value in report.facts.items()]
        for check in report.checks:
            mark = "held  " if check.held else "BREACH"
            lines.append(
                f"  {mark} {check.name:<{name_width}}  {check.wanted:>{wanted_width}}  {check.seen}"
            )
        lines.append("")
    total_s = sum(report.elapsed_s for report in reports)
    broken = [report.name for report in reports if not report.held]
    lines.append(f"{len(reports)} experiments, {total_s:.0f} s: " + verdict_line(broken))
    return "\n".join(lines)


def verdict_line(broken: Sequence[str]) -> str:
    """Put the whole into words."""
    return f"BREACHED in {', '.join(broken)}" if broken else "every promise held"


def quantile(values: Sequence[float], q: float) -> float:
    """The value that a share `q` of all does not exceed; zero if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0
