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
from dialectic.cli.completion import complete_values
from dialectic.cli.options import (
    keep_json_option,
    keep_server_option,
    refuse_empty_options,
    take_server_option,
)
from dialectic.core.suggestion import find_near
from dialectic.errors import DialecticError, ExitCode

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The module of each command, and its line in the help.
COMMANDS = {
    "run": ("run", "Let models argue about a prompt, and write a plan."),
    "status": ("sessions", "Show all sessions, or one in detail."),
    "resume": ("sessions", "Resume a session, with a worker in this process."),
    "watch": ("sessions", "Follow a session while it works."),
    "pause": ("sessions", "Pause a session; running jobs finish their turn."),
    "cancel": ("sessions", "Cancel a session for good; documents are kept."),
    "retry": ("session_actions", "Retry the failed jobs of a session."),
    "notifications": ("notifications", "Messages to you: what failed, waits for you or is done."),
    "next": ("session_actions", "Submit feedback and start the next stage."),
    "feedback": ("session_actions", "Add feedback on a stage of a session."),
    "edit": ("session_actions", "Change a contribution in your editor."),
    "rate": ("session_actions", "Rate a contribution from 1 to 5."),
    "regenerate": ("session_actions", "Let the same model write a contribution again."),
    "iterate": ("session_actions", "Start another iteration from the session's last outputs."),
    "seat": ("seats", "The models of a session: list, drop, replace."),
    "show": ("documents", "Show the plan of a session, or one document."),
    "report": ("report", "Write plan, documents, lineage and costs into one HTML file."),
    "list": ("documents", "List sessions, or the contributions of one."),
    "export": ("documents", "Export a project to a zip file."),
    "import": ("documents", "Import a project from a zip file."),
    "push": ("push", "Push the documents of a project to a git repository."),
    "search": ("documents", "Search the documents of a project."),
    "diff": ("documents", "Compare two contributions."),
    "trace": ("provenance", "Show where the passages of a document come from."),
    "coverage": ("provenance", "Show what became of every point of an iteration."),
    "figures": ("provenance", "Show where the figures of the final document come from."),
    "strength": ("provenance", "Show what a document rests on."),
    "dissent": ("dissents", "Show what the models do not agree on."),
    "rule": ("dissents", "Decide what the models do not agree on."),
    "plan": ("plan", "The files of the agreed plan: list, show, edit, move, delete."),
    "project": ("projects", "Projects: list, change."),
    "resource": ("projects", "Resources of a project: add, list, remove."),
    "rename": ("projects", "Give a project another name."),
    "archive": ("projects", "Take a project out of the lists, or bring it back."),
    "delete": ("projects", "Delete a project with all its documents."),
    "chat": ("chat", "Chat with one model."),
    "init": ("init", "Choose the models of your runs, test and store them."),
    "keys": ("keys", "Keys of providers: set, list, remove."),
    "models": ("models", "Models: list, sync, test, alias, worth."),
    "wallet": ("wallet", "Money: balance, limit, topup, unlimited, history, costs, verify."),
    "endpoint": ("endpoints", "Your own endpoints: add, list, test, remove."),
    "process": ("process", "Processes: list, show, new, check."),
    "doctor": ("doctor", "Check settings, database, storage and models."),
    "serve": ("operate", "Serve the API and run a worker."),
    "worker": ("operate", "Run jobs until stopped."),
    "simulate": ("simulate", "Simulate providers, including their failures."),
    "user": ("users", "Users and their tokens: add, token, list, revoke."),
    "org": ("users", "Organisations: create, list, add, remove."),
    "db": ("operate", "The database: migrate, url, shell, stop."),
    "completion": ("guide", "Completion of commands, ids and names in your shell."),
    "help": ("guide", "Show the help of a command."),
}
# Sections of the help, by task: the first command of each, and its title.
SECTIONS = {
    "run": "Get a plan",
    "next": "Steer between stages",
    "show": "Read, keep and tidy up",
    "chat": "Choose models, pay",
    "doctor": "Operate",
}
# The commands that have a line of their own in the overview; the others are only named.
EVERYDAY = frozenset(
    {"run", "status", "resume", "next", "feedback", "edit", "show", "list"}
    | {"models", "wallet", "doctor", "serve"}
)
# Shown at the end of each command's help.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": ("dialectic run --file brief.md --models offline/architect,offline/skeptic*2",),
    "status": ("dialectic status", "dialectic status 41ac --quote"),
    "watch": ("dialectic watch 41ac", "dialectic watch 41ac --json | jq .type"),
    "pause": ("dialectic pause 41ac",),
    "resume": ("dialectic resume 41ac", "dialectic resume 41ac --budget 5 --approve-spend"),
    "cancel": ("dialectic cancel 41ac",),
    "seat list": ("dialectic seat list 41ac",),
    "seat drop": ("dialectic seat drop 41ac 2",),
    "seat replace": ("dialectic seat replace 41ac 2 offline/skeptic",),
    "wallet balance": (
        "dialectic wallet balance",
        "dialectic wallet balance --org Bakers --as alice",
    ),
    "wallet topup": (
        'dialectic wallet topup 20 --note "for May"',
        "dialectic wallet topup 50 --org Bakers --as alice",
    ),
    "wallet limit": ("dialectic wallet limit 20", "dialectic wallet limit 20 --as alice"),
    "wallet unlimited": ("dialectic wallet unlimited", "dialectic wallet unlimited --off"),
    "wallet history": ("dialectic wallet history --limit 10",),
    "wallet costs": ("dialectic wallet costs 41ac",),
    "wallet verify": ("dialectic wallet verify",),
    "export": (
        'dialectic export "Village hall" --out hall.zip',
        "dialectic export 41ac --finished",
    ),
    "import": ("dialectic import hall.zip",),
    "push": (
        'dialectic push "Village hall" plans.git',
        'dialectic push 41ac plans.git --branch hall --message "First plan"',
    ),
    "project list": ("dialectic project list",),
    "project change": ('dialectic project change 41ac --domain "Software Development"',),
    "rename": ('dialectic rename 41ac "Village hall, second try"',),
    "archive": ('dialectic archive "Village hall"', "dialectic archive 41ac --restore"),
    "delete": ('dialectic delete "Village hall"', "dialectic delete 41ac --yes"),
    "resource add": ('dialectic resource add "Village hall" domain_standards=rules.md',),
    "resource list": ('dialectic resource list "Village hall"',),
    "resource remove": ('dialectic resource remove "Village hall" 7f94',),
    "init": ("dialectic init", 'dialectic init --models "offline/architect,offline/skeptic*2"'),
    "keys set": (
        "dialectic keys set openai",
        "dialectic keys set openai --in-file --no-check < key.txt",
    ),
    "keys list": ("dialectic keys list",),
    "keys remove": ("dialectic keys remove openai",),
    "models list": ("dialectic models list",),
    "models sync": ("dialectic models sync openai",),
    "models test": ("dialectic models test offline/skeptic",),
    "models alias": (
        "dialectic models alias two offline/architect,offline/skeptic",
        "dialectic models alias",
    ),
    "endpoint add": ("dialectic endpoint add acme --url URL --model m,window=64000,output=8000",),
    "endpoint list": ("dialectic endpoint list",),
    "endpoint test": ("dialectic endpoint test acme",),
    "endpoint remove": ("dialectic endpoint remove acme",),
    "process list": ("dialectic process list",),
    "process show": ("dialectic process show standard --models 4",),
    "process new": ("dialectic process new my-process --from digest",),
    "process check": ("dialectic process check my-process",),
    "feedback": (
        'dialectic feedback 41ac thesis "Think of winter too."',
        "dialectic feedback 41ac thesis --file notes.md --on 7f94",
    ),
    "edit": ("dialectic edit 7f94", "dialectic edit 7f94 --file better.md"),
    "rate": ("dialectic rate 7f94 4",),
    "next": ("dialectic next 41ac --out plans",),
    "iterate": ("dialectic iterate 41ac",),
    "retry": ("dialectic retry 41ac",),
    "notifications": ("dialectic notifications", "dialectic notifications --all --json"),
    "notifications read": ("dialectic notifications read", "dialectic notifications read 12 13"),
    "regenerate": (
        "dialectic regenerate 7f94",
        "dialectic regenerate --stale 41ac --dry-run",
    ),
    "show": (
        "dialectic show 41ac",
        "dialectic show 7f94 > thesis.md",
        "dialectic show 7f94 --prompt",
        "dialectic show 7f94 --sources",
    ),
    "report": ("dialectic report 41ac --out hall.html",),
    "list": ("dialectic list", "dialectic list 41ac --all"),
    "diff": ("dialectic diff 7f94 a3c0",),
    "trace": ("dialectic trace 7f94", 'dialectic trace 7f94 "deposit"'),
    "figures": ("dialectic figures 41ac",),
    "strength": ("dialectic strength 7f94",),
    "models worth": ("dialectic models worth --since 2026-01-31",),
    "dissent": ("dialectic dissent 41ac",),
    "rule": (
        "dialectic rule 41ac 9c1e --for 07d2",
        'dialectic rule 41ac 9c1e "The deposit is 30 euros."',
        "dialectic rule 41ac 9c1e --withdraw",
    ),
    "coverage": ("dialectic coverage 41ac", "dialectic coverage 41ac --status dropped,changed"),
    "search": ('dialectic search "Village hall" "Who keeps the keys?" --limit 3',),
    "plan list": ('dialectic plan list "Village hall"',),
    "plan show": ('dialectic plan show "Village hall" 01',),
    "plan edit": ('dialectic plan edit "Village hall" 01 --file ticked.md',),
    "plan move": ('dialectic plan move "Village hall" 01 current',),
    "plan delete": ('dialectic plan delete "Village hall" 01',),
    "chat": (
        'dialectic chat "Name a bakery." --model offline/skeptic',
        "dialectic chat --list",
        'dialectic chat "Another one." --chat 9d02',
    ),
    "serve": ("dialectic serve --open", "dialectic serve --host 0.0.0.0 --port 8420 --no-worker"),
    "worker": ("dialectic worker --concurrency 32",),
    "simulate": (
        "dialectic simulate --port 8077 --script faults.toml",
        "dialectic simulate --faults",
    ),
    "doctor": ("dialectic doctor",),
    "user add": ("dialectic user add alice --token",),
    "user token": ("dialectic user token alice --scope read --expires 30",),
    "user list": ("dialectic user list", "dialectic user list alice"),
    "user revoke": ("dialectic user revoke alice --all",),
    "org create": ("dialectic org create Bakers --as alice",),
    "org list": ("dialectic org list Bakers --as alice",),
    "org add": ("dialectic org add Bakers bob --role admin --as alice",),
    "org remove": ("dialectic org remove Bakers bob --as alice",),
    "completion": (
        "dialectic completion zsh > ~/.zfunc/_dialectic",
        "dialectic completion bash > ~/.local/share/dialectic.bash",
    ),
    "help": ("dialectic help run", "dialectic help wallet topup"),
    "db migrate": ("dialectic db migrate",),
    "db url": ("dialectic db url",),
    "db shell": ("dialectic db shell",),
    "db stop": ("dialectic db stop",),
}


def add_examples(command: click.Command, name: str) -> None:
    """Add examples to the help of a command, or of each command in a group."""
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            add_examples(inner, f"{name} {inner_name}")
    if command.epilog is None and name in EXAMPLES:
        # "\b" stops click from rewrapping the lines.
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {one}" for one in EXAMPLES[name])])


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"dialectic.cli.commands.{COMMANDS[cmd_name][0]}")
        # A command named like a Python builtin has a trailing underscore.
        command: click.Command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")
        take_server_option(command)
        refuse_empty_options(command)
        add_examples(command, cmd_name)
        keep_json_option(command)
        if ctx.resilient_parsing:  # a shell asks for completions
            complete_values(command)
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
            # click suggests only among loaded commands, and only in the same letter case.
            near = find_near(error.command_name, COMMANDS)
            raise NoSuchCommand(
                error.command_name,
                f"No such command {error.command_name!r}."
                + (f" Did you mean {near!r}?" if near is not None else ""),
                ctx=ctx,
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = list(COMMANDS)
        shown = COMMANDS if ctx.meta.get("dialectic.everything") else EVERYDAY
        places = [*map(names.index, SECTIONS), len(names)]
        width = max(map(len, names))
        for title, (first, end) in zip(SECTIONS.values(), itertools.pairwise(places), strict=True):
            some = names[first:end]
            rows = [(name.ljust(width), COMMANDS[name][1]) for name in some if name in shown]
            if others := [name for name in some if name not in shown]:
                rows.append(("also".ljust(width), ", ".join(others)))
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`dialectic help COMMAND` has examples; `help --all` lists every command.",
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
    from dialectic.cli.terminal import drop_output  # imported only if needed

    drop_output(1, 2)
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
