"""The chaos suite in small: the same experiments that `make chaos` runs, with tiny numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.experiments import EXPERIMENTS, conduct
from chaos.verdict import render_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", EXPERIMENTS)
async def test_every_promise_holds_when(name: str, made_home: Path) -> None:
    report = await conduct(name, EXPERIMENTS[name].SMALL, seed=1, made_home=made_home)

    assert report.held, render_table([report])
