"""The last lines of a followed session: how it ended, its cost, where the plan is, what to do next.

Five lines for a session that is done; one that is not done says what is wrong in their place.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from dialectic.cli.backend import Backend
from dialectic.cli.display.quote import describe_shortage
from dialectic.cli.display.session_end import SETUP_REASONS, has_stage_to_read
from dialectic.cli.error_report import mark, say_remedy
from dialectic.cli.options import name_command
from dialectic.cli.terminal import WIDTH_MIN, say
from dialectic.contract.sessions import SessionDetail, SessionRecord
from dialectic.core.documents.offline_notice import list_notices
from dialectic.core.session_state import Phase
from dialectic.core.transfer.bundle_format import readme_path
from dialectic.errors import ExitCode

SEPARATOR = "  ·  "


def describe_done(session: SessionRecord) -> str:
    """Describe the end of a session that is done."""
    if session.state.phase is Phase.STAGE_COMPLETE:
        return f"Done: {session.project_name} is complete up to {session.current_stage_slug}."
    number = f", iteration {session.iteration_count}," if session.iteration_count > 1 else ""
    return f"Done: {session.project_name}{number} is complete."


def list_next(session: SessionRecord) -> list[str]:
    """List the most likely next commands for a session that is done."""
    short, stage = str(session.id)[:8], session.current_stage_slug
    if session.state.phase is Phase.STAGE_COMPLETE:
        words = [f"show {short}", f"next {short}", f'feedback {short} {stage} "…"']
    else:
        words = [f"show {short}", f"iterate {short}", f"export {short}"]
    return [name_command(each) for each in words]


def pack_commands(commands: Sequence[str], width: int) -> Iterator[str]:
    """Put commands on as few lines as possible, none broken."""
    line = ""
    for command in commands:
        longer = f"{line}{SEPARATOR}{command}" if line else command
        if line and len(longer) + len("Next: ") > max(width, WIDTH_MIN):
            yield line
            longer = command
        line = longer
    if line:
        yield line


def say_done(
    backend: Backend, session: SessionRecord, total: str, copy: Path | None, plan: str | None
) -> None:
    """Say that a session is done, what it took, where its plan is and what can follow."""
    say(describe_done(session))
    say(total)
    for notice in list_notices(session.model_names, ""):
        say(notice)
    say_where(backend, session, copy, plan)
    width = shutil.get_terminal_size().columns
    for number, line in enumerate(pack_commands(list_next(session), width)):
        say(f"{'      ' if number else 'Next: '}{line}")


def say_where(
    backend: Backend, session: SessionRecord, copy: Path | None, plan: str | None
) -> None:
    """Say where a session's result is; a path stays on one line, to be copied or clicked."""
    path = plan or readme_path(session.project_slug)
    if copy is not None or backend.is_local:
        place = str(copy / path) if copy is not None else backend.locate(path)
        say(f"{'Plan: ' if plan else 'Read: '}{place}", wraps=False)
    else:
        command = name_command(f"export {str(session.id)[:8]}")
        say(f"They are on the server; `{command}` or --out DIR copies them here.")


def say_what_helps(code: ExitCode, detail: SessionDetail) -> None:
    """Say how to continue a session that did not finish."""
    match code:
        case ExitCode.WAITING:
            say_what_next(detail.session)
        case ExitCode.FUNDS:
            say("\n".join(describe_shortage(detail)))
        case ExitCode.CONFIGURATION:
            _say_setup(detail)
        case ExitCode.FAILED:
            _say_why(detail.session)
        case _:
            pass


def _say_setup(detail: SessionDetail) -> None:
    """Say what the operator must correct before the paused jobs can continue."""
    waiting = [job for job in detail.jobs if job.status_reason in SETUP_REASONS]
    # One reason of each kind: jobs with the same reason say the same.
    for entry in {job.status_reason: job.error_details[-1] for job in waiting}.values():
        say(f"Paused: {mark(entry.message, entry.code)}")
        say_remedy(entry.known_remedy)


def _say_why(session: SessionRecord) -> None:
    """Say why a session did not finish, and what helps."""
    short = str(session.id)[:8]
    if session.state.phase is Phase.CANCELLED:
        say("The session was cancelled. Its documents are kept.")
        return
    say(
        f"Some jobs failed: `{name_command(f'status {short}')}` shows them, "
        f"`{name_command(f'retry {short}')}` retries them."
    )


def say_what_next(session: SessionRecord) -> None:
    """Say how to continue a session that waits for the user."""
    stage, short = session.current_stage_slug, str(session.id)[:8]
    if not has_stage_to_read(session):
        say(f"Paused. `{name_command(f'resume {short}')}` resumes it.")
        return
    say(f"Stage {stage} is complete and waits for you. Read it, then give feedback:")
    say(f'  {name_command(f"feedback {short} {stage}")} "…"    (also: edit, rate)')
    say(f"  {name_command(f'next {short}')}    starts the next stage")
