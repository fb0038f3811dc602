"""`dialectic worker`: carries out jobs of anyone, for as long as it is left alone."""

from __future__ import annotations

import sys

import click

from dialectic.cli.host import catching_signals, open_worker
from dialectic.cli.local import open_local_desk
from dialectic.cli.terminal import count, load_settings, run_async, say
from dialectic.errors import ExitCode
from dialectic.settings import Settings


@click.command()
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), help="Jobs to run at a time, for each endpoint."
)
def worker(concurrency: int | None) -> None:
    """Carry out jobs until told to stop; calls in flight are finished, unless told twice."""
    sys.exit(run_async(_work(load_settings(), concurrency)))


async def _work(settings: Settings, concurrency: int | None) -> ExitCode:
    async with (
        open_local_desk(settings) as desk,
        open_worker(desk, concurrency=concurrency or settings.worker_concurrency) as host,
    ):
        with catching_signals(lambda count: host.stop(at_once=count > 1)):
            say(f"Worker {host.name} is ready for {count(host.concurrency, 'job')} at a time.")
            await host.run()
        say("Worker stopped.")
    return ExitCode.DONE
