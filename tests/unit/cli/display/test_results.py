"""What is said of a session whose command leaves it, or that came to no end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast
from uuid import UUID

import click
import pytest

from dialectic.cli.display.follow import LineDisplay
from dialectic.cli.display.progress import Counting
from dialectic.cli.display.results import telling_unstarted
from dialectic.cli.options import KEPT, name_commands
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.processes.loader import load_process
from dialectic.providers.offline import CARDS

if TYPE_CHECKING:
    from dialectic.cli.backend import Backend

SESSION = UUID("0123abcd-0000-4000-8000-000000000000")
TOLD = (
    "Raise it with `dialectic resume 0123abcd --budget USD`, or ask for `dialectic wallet topup`."
)


@pytest.fixture
def at_a_server() -> Iterator[None]:
    with click.Context(click.Command("run")) as context:
        context.meta[KEPT] = "http://there"
        yield


def test_a_session_that_was_made_is_named_to_whoever_leaves_before_it_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(asyncio.CancelledError), telling_unstarted(SESSION):
        raise asyncio.CancelledError
    said = capsys.readouterr().err
    assert str(SESSION) in said
    assert "`dialectic resume 0123abcd` starts it" in said


def test_commands_that_were_advised_elsewhere_are_named_as_they_are_typed_here() -> None:
    assert name_commands(TOLD) == TOLD


@pytest.mark.usefixtures("at_a_server")
def test_commands_about_a_session_name_the_server_and_those_of_its_operator_do_not() -> None:
    assert name_commands(TOLD) == TOLD.replace(
        "`dialectic resume", "`dialectic --server http://there resume"
    )


@pytest.mark.parametrize(
    ("kind", "status", "goes_on"),
    [
        ("contribution_generation_complete", "complete", True),
        ("contribution_generation_complete", "failed", False),
        ("session_cancelled", "", False),
        ("session_paused", "", True),
    ],
)
def test_nothing_is_forecast_of_a_session_that_has_ended_early(
    kind: str, status: str, goes_on: bool
) -> None:
    process = load_process("standard")
    brief = Brief(request="Sell what is left over.", domain="General")
    quote = build_quote(process, CARDS[:1], brief, Terms())
    counting = Counting(cast("Backend", None), LineDisplay(), quote)
    data = {"stageSlug": "thesis", "status": status, "failed": 1, "completed": 0}
    counting.show({"type": kind, "data": data})
    assert ("in the end" in counting.counters.describe()) is goes_on
