"""The command `dialectic`: finds the subcommand, and maps errors to messages and exit codes.

Subcommands are imported on use, so that `dialectic --version` is fast.
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
        "Let models argue about a prompt and write a folder of documents.",
    ),
    "status": ("dialectic.cli.commands.sessions", "Show all sessions, or one in detail."),
    "watch": ("dialectic.cli.commands.sessions", "Follow a session while it works."),
    "pause": (
        "dialectic.cli.commands.sessions",
        "Pause a session; running jobs finish their turn.",
    ),
    "resume": (
        "dialectic.cli.commands.sessions",
        "Resume a session, with a worker in this process.",
    ),
    "cancel": ("dialectic.cli.commands.sessions", "Cancel a session for good; documents are kept."),
    "retry": ("dialectic.cli.commands.session_actions", "Retry the failed jobs of a session."),
    "feedback": (
        "dialectic.cli.commands.session_actions",
        "Add feedback on a stage of a session.",
    ),
    "edit": (
        "dialectic.cli.commands.session_actions",
        "Replace a contribution with your own text.",
    ),
    "rate": ("dialectic.cli.commands.session_actions", "Rate a contribution from 1 to 5."),
    "regenerate": (
        "dialectic.cli.commands.session_actions",
        "Let the same model write a contribution again.",
    ),
    "next": ("dialectic.cli.commands.session_actions", "Submit feedback and start the next stage."),
    "iterate": (
        "dialectic.cli.commands.session_actions",
        "Start another iteration from the session's last outputs.",
    ),
    "list": ("dialectic.cli.commands.documents", "List sessions, or the contributions of one."),
    "show": ("dialectic.cli.commands.documents", "Show a contribution, or a session."),
    "diff": ("dialectic.cli.commands.documents", "Compare two contributions."),
    "search": ("dialectic.cli.commands.projects", "Search the documents of a project."),
    "export": ("dialectic.cli.commands.projects", "Export a project to a zip file."),
    "import": ("dialectic.cli.commands.projects", "Import a project from a zip file."),
    "chat": ("dialectic.cli.commands.chat", "Chat with one model."),
    "models": ("dialectic.cli.commands.models", "Models: list, sync, test."),
    "process": ("dialectic.cli.commands.process", "Processes: list, show, check."),
    "wallet": (
        "dialectic.cli.commands.wallet",
        "Money: balance, topup, unlimited, history, costs, verify.",
    ),
    "serve": ("dialectic.cli.commands.serve", "Serve the API and run a worker."),
    "worker": ("dialectic.cli.commands.serve", "Run jobs until stopped."),
    "simulate": (
        "dialectic.cli.commands.simulate",
        "Simulate providers, including their failures.",
    ),
    "doctor": (
        "dialectic.cli.commands.doctor",
        "Check settings, database, storage and models.",
    ),
    "user": ("dialectic.cli.commands.users", "Users and their tokens: add, token, list, revoke."),
    "org": ("dialectic.cli.commands.organizations", "Organisations: create, list, add, remove."),
    "db": ("dialectic.cli.commands.db", "The database: migrate, url, shell, stop."),
}
# Sections of the help: the first command of each, and its title.
SECTIONS = {
    "run": "Argue",
    "feedback": "Steer between stages",
    "list": "Read and export",
    "chat": "Ask, choose, pay",
    "serve": "Operate",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        # A command named like a Python builtin has a trailing underscore.
        command: click.Command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")
        take_server_option(command)
        refuse_empty_options(command)
        add_examples(command, cmd_name)
        keep_json_option(command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand; report an error while the context still has the options."""
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
            # click suggests only among loaded commands.
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
    epilog="A SESSION or CONTRIBUTION is an id or a prefix of one; `list` shows them. State is "
    "kept in DIALECTIC_HOME. Documents and JSON go to stdout, all else to stderr. `dialectic "
    "COMMAND -h` has examples.",
)
@click.version_option(__version__, prog_name="dialectic")
@click.option(
    "--server",
    metavar="URL",
    expose_value=False,
    callback=keep_server_option,
    help="Use this server; the option may also follow the command.",
)
def cli() -> None:
    """Several language models argue until a plan holds."""


def main() -> None:
    """Run the command; every error becomes one message and an exit code."""
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
        # The reader closed the pipe, so no message can be delivered.
        _leave_unwritten()
    except OSError as error:
        if error.filename is not None:
            _leave_puzzled(error)
        _complain(
            f"The output cannot be written: {error.strerror}. Free some disk space.", "output"
        )
        _leave_unwritten()
    except Exception as error:  # noqa: BLE001  the last resort
        _leave_puzzled(error)


def _open_streams() -> None:
    """Reopen closed standard streams, so that no file or socket gets their descriptors."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.RawIOBase):
            # With PYTHONUNBUFFERED a partial write to a pipe would lose the rest.
            whole = io.TextIOWrapper(
                _Whole(number), stream.encoding, stream.errors, write_through=True
            )
            setattr(sys, name, whole)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Print a path as its raw bytes, even if they are not valid UTF-8.
        sys.stdout.reconfigure(errors="surrogateescape")


class _Whole(io.BufferedIOBase):
    """An unbuffered stream: a write is complete or raises."""

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
    """Exit because of a known error."""
    from dialectic.cli.error_report import report_error  # imported only if needed

    report_error(error)
    sys.exit(error.exit_code)


def _complain(message: str, code: str) -> None:
    from dialectic.cli.error_report import mark  # imported only if needed
    from dialectic.cli.terminal import say

    say(f"dialectic: {mark(message, code)}")


def _leave_unwritten() -> NoReturn:
    """Exit and drop unwritten output; the interpreter would try to flush it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    sys.exit(ExitCode.FAILED)


def _leave_puzzled(error: Exception) -> NoReturn:
    """Exit because of an unexpected error. Its message may be private, so it is not shown."""
    logging.getLogger(__name__).debug("unexpected", exc_info=error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    _complain(
        f"{type(error).__name__} at {place}. This is a bug in Dialectic. Saved data is not "
        "affected. Set DIALECTIC_LOG_LEVEL=DEBUG for details.",
        "internal",
    )
    sys.exit(ExitCode.FAILED)
