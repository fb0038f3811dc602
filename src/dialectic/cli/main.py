"""The command `dialectic`: finds the subcommand, and turns errors into words and exit codes.

Subcommands are imported when they are called, so that `dialectic --version` is quick.
"""

from __future__ import annotations

import importlib
import io
import itertools
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from click.exceptions import NoSuchCommand

from dialectic import __version__
from dialectic.cli.examples import add_examples
from dialectic.cli.json_option import keep_json_option
from dialectic.cli.options import keep_server_option, refuse_empty_options, take_server_option
from dialectic.errors import DialecticError, ExitCode

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

COMMANDS = {
    "run": (
        "dialectic.cli.commands.run",
        "Let models argue about a prompt, and leave a folder of documents.",
    ),
    "status": ("dialectic.cli.commands.sessions", "Show all sessions, or one in detail."),
    "watch": ("dialectic.cli.commands.sessions", "Follow a session while it works."),
    "pause": (
        "dialectic.cli.commands.sessions",
        "Start nothing more of a session until it is resumed.",
    ),
    "resume": (
        "dialectic.cli.commands.sessions",
        "Go on with a session, with a worker in this process.",
    ),
    "cancel": ("dialectic.cli.commands.sessions", "End a session for good; what is written stays."),
    "retry": ("dialectic.cli.commands.session_actions", "Run again what failed in a session."),
    "feedback": (
        "dialectic.cli.commands.session_actions",
        "Say something about a stage of a session.",
    ),
    "edit": (
        "dialectic.cli.commands.session_actions",
        "Put a text of your own in the place of a contribution.",
    ),
    "rate": ("dialectic.cli.commands.session_actions", "Rate a contribution from 1 to 5."),
    "regenerate": (
        "dialectic.cli.commands.session_actions",
        "Let a model write one contribution anew.",
    ),
    "next": ("dialectic.cli.commands.session_actions", "Submit feedback and start the next stage."),
    "iterate": (
        "dialectic.cli.commands.session_actions",
        "Run a session's process once more, from its last outputs.",
    ),
    "list": ("dialectic.cli.commands.documents", "List sessions, or the contributions of one."),
    "show": ("dialectic.cli.commands.documents", "Show a contribution, or a session."),
    "diff": ("dialectic.cli.commands.documents", "Show how two contributions differ."),
    "search": ("dialectic.cli.commands.projects", "Find passages in the documents of a project."),
    "export": ("dialectic.cli.commands.projects", "Write a project into a zip file."),
    "import": ("dialectic.cli.commands.projects", "Take in a project from a zip file."),
    "chat": ("dialectic.cli.commands.chat", "Chat with one model."),
    "models": ("dialectic.cli.commands.models", "Models: list, sync, test."),
    "process": ("dialectic.cli.commands.process", "Processes: list, show, check."),
    "wallet": (
        "dialectic.cli.commands.wallet",
        "Money: balance, topup, unlimited, history, costs, verify.",
    ),
    "serve": ("dialectic.cli.commands.serve", "Serve the API, and work."),
    "worker": ("dialectic.cli.commands.serve", "Carry out jobs until told to stop."),
    "simulate": (
        "dialectic.cli.commands.simulate",
        "Answer as providers would, and fail on order.",
    ),
    "doctor": (
        "dialectic.cli.commands.doctor",
        "Check that everything this program needs is in order.",
    ),
    "user": ("dialectic.cli.commands.users", "Users and their tokens: add, token, list, revoke."),
    "org": ("dialectic.cli.commands.organizations", "Organisations: create, list, add, remove."),
    "db": ("dialectic.cli.commands.db", "The database: migrate, url, shell, stop."),
}
# In the help, from which command on: people look for what they want to do.
SECTIONS = {
    "run": "Argue",
    "feedback": "Steer between stages",
    "list": "Read and take away",
    "chat": "Ask, choose, pay",
    "serve": "Operate",
}


class LazyGroup(click.Group):
    """A group that knows the names of its commands and loads them one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        # What would hide a name of the language has a line behind it.
        command: click.Command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")
        take_server_option(command)
        refuse_empty_options(command)
        add_examples(command, cmd_name)
        keep_json_option(command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand; an error is reported while it is known what the line has named."""
        try:
            return super().invoke(ctx)
        except DialecticError as error:
            _leave(error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            # The base looks for a near one among those that are loaded.
            raise NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        names = list(COMMANDS)
        places = [*map(names.index, SECTIONS), len(names)]
        width = max(map(len, names))
        for title, (first, end) in zip(SECTIONS.values(), itertools.pairwise(places), strict=True):
            with formatter.section(title):
                rows = [(name.ljust(width), COMMANDS[name][1]) for name in names[first:end]]
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="A SESSION or CONTRIBUTION is an id or the beginning of one; `list` shows them. State "
    "lives in DIALECTIC_HOME. Documents and JSON go to stdout, all else to stderr. `dialectic "
    "COMMAND -h` has examples.",
)
@click.version_option(__version__, prog_name="dialectic")
@click.option(
    "--server",
    metavar="URL",
    expose_value=False,
    callback=keep_server_option,
    help="Drive the server there; it may also stand behind the command.",
)
def cli() -> None:
    """Several language models argue until a plan holds."""


def main() -> None:
    """Run the command; whatever goes wrong becomes one message and a code."""
    _open_streams()
    try:
        cli.main(prog_name="dialectic", standalone_mode=False)
    except DialecticError as error:
        _leave(error)
    except click.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except BrokenPipeError:
        # Whoever read our output has had enough; there is nobody left to tell.
        _leave_unwritten()
    except OSError as error:
        if error.filename is not None:
            _leave_puzzled(error)
        _complain(f"The output cannot be written: {error.strerror}. Make room for it.", "output")
        _leave_unwritten()
    except Exception as error:  # noqa: BLE001  the last resort
        _leave_puzzled(error)


def _open_streams() -> None:
    """Open what a caller closed, so that no file or socket of ours takes its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.RawIOBase):
            # As PYTHONUNBUFFERED has it: one write, and what a pipe does not take of it is lost.
            whole = io.TextIOWrapper(
                _Whole(number), stream.encoding, stream.errors, write_through=True
            )
            setattr(sys, name, whole)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A path is printed as the bytes that it is, also if they are no text.
        sys.stdout.reconfigure(errors="surrogateescape")


class _Whole(io.BufferedIOBase):
    """A stream that keeps nothing back: what is written is out, all of it, or could not be."""

    def __init__(self, number: int) -> None:
        self._number = number

    @property
    def name(self) -> int:
        return self._number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: ReadableBuffer, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        while left:
            left = left[os.write(self._number, left) :]
        return size


def _leave(error: DialecticError) -> NoReturn:
    """Leave because of an error we know."""
    from dialectic.cli.error_report import report_error  # not before it is needed

    report_error(error)
    sys.exit(error.exit_code)


def _complain(message: str, code: str) -> None:
    from dialectic.cli.error_report import mark  # not before it is needed
    from dialectic.cli.terminal import say

    say(f"dialectic: {mark(message, code)}")


def _leave_unwritten() -> NoReturn:
    """Leave without what could not be written; the interpreter would try once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    sys.exit(ExitCode.FAILED)


def _leave_puzzled(error: Exception) -> NoReturn:
    """Leave because of something unexpected. Its own words may hold what is nobody's business."""
    logging.getLogger(__name__).debug("unexpected", exc_info=error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    _complain(
        f"{type(error).__name__} at {place}. This is a fault of the program. Nothing that was "
        "saved is lost; with DIALECTIC_LOG_LEVEL=DEBUG the command says more.",
        "internal",
    )
    sys.exit(ExitCode.FAILED)
