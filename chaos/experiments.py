"""The experiments by name, and how one is conducted: whatever happens, there is a verdict."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from chaos import (
    barrier,
    events,
    failpoints,
    fleet,
    hostile,
    kills,
    migration,
    money,
    postgres,
    resume,
    start,
    starved,
    tenants,
    zombie,
)
from chaos.lab import Stuck
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report

EXPERIMENTS: dict[str, ModuleType] = {
    "barrier": barrier,
    "money": money,
    "tenants": tenants,
    "kills": kills,
    "failpoints": failpoints,
    "zombie": zombie,
    "starved": starved,
    "hostile": hostile,
    "postgres": postgres,
    "migration": migration,
    "start": start,
    "resume": resume,
    "events": events,
    "fleet": fleet,
}
IN_TIME = "waits that came to no end"


async def conduct(
    name: str,
    size: Any,
    *,
    seed: int,
    sabotage: Sabotage = NONE,
    is_quiet: bool = False,
    made_home: Path | None = None,
) -> Report:
    """Conduct one experiment and return its verdict. To be stuck is a breach like any other."""
    is_small = size is EXPERIMENTS[name].SMALL
    report = Report(name, seed, is_quiet, needs_coverage=not is_small, made_home=made_home)
    stuck: list[str] = []
    try:
        await EXPERIMENTS[name].run(report, size, sabotage)
    except Stuck as error:
        stuck.append(str(error))
    report.expect_none(IN_TIME, stuck)
    return report.finish()
