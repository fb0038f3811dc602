"""Pauses the session of an interrupted command, so that nothing continues it unasked.

Only for sessions whose worker is in this process: a server continues without its followers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from dialectic.cli.backend import Backend
from dialectic.cli.options import name_command
from dialectic.cli.terminal import say
from dialectic.errors import Conflict, DialecticError

# How long an interrupted command waits for the database.
PAUSE_S = 10.0


async def pause_surely(backend: Backend, session_id: UUID) -> bool:
    """Pause a session, whatever further interrupts come; return whether it is paused now.

    One that has ended cannot be paused and need not be.
    """
    pausing = asyncio.create_task(backend.pause(session_id))
    deadline_s = asyncio.get_running_loop().time() + PAUSE_S
    while not pausing.done() and (left_s := deadline_s - asyncio.get_running_loop().time()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({pausing}, timeout=left_s)
    try:
        if not pausing.done():
            pausing.cancel()
            say("The session could not be paused: the database does not answer.")
            return False
        pausing.result()
    except Conflict:
        return False
    except DialecticError as error:
        say(f"The session could not be paused: {error.message}")
        return False
    return True


@asynccontextmanager
async def leaving_paused(backend: Backend, session_id: UUID) -> AsyncIterator[None]:
    """Leave a session paused if its command is interrupted, or its reader closes the pipe."""
    try:
        yield
    except (asyncio.CancelledError, BrokenPipeError):
        is_paused = backend.is_local and await pause_surely(backend, session_id)
        tell_left(backend, session_id, is_paused=is_paused)
        raise


def tell_left(backend: Backend, session_id: UUID, *, is_paused: bool = True) -> None:
    """Describe the state of a session whose command was interrupted."""
    short = str(session_id)[:8]
    resume, watch, pause = (
        name_command(f"{verb} {short}") for verb in ("resume", "watch", "pause")
    )
    if not backend.is_local:
        say(
            f"Stopped following; the server continues. `{watch}` follows it again, `{pause}` "
            "pauses it."
        )
    elif is_paused:
        say(f"Interrupted. Session {session_id} is paused; `{resume}` resumes it.")
    else:
        say(f"Interrupted. `{name_command(f'status {short}')}` shows session {session_id}.")
