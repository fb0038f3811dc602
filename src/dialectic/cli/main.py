"""The command `dialectic`: finds the subcommand, and turns errors into words and exit codes.

Subcommands are imported when they are called, so that `dialectic --version` is quick.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version

import click

from dialectic.errors import DialecticError, ExitCode

COMMANDS = {
    "run": (
        "dialectic.cli.run",
        "Let models argue about a prompt, and leave a folder of documents.",
    ),
    "status": ("dialectic.cli.session", "Show all sessions, or one in detail."),
    "watch": ("dialectic.cli.session", "Follow a session while it works."),
    "pause": ("dialectic.cli.session", "Start nothing more of a session until it is resumed."),
    "resume": ("dialectic.cli.session", "Go on with a session, with a worker in this process."),
    "cancel": ("dialectic.cli.session", "End a session for good; what is written stays."),
    "worker": ("dialectic.cli.worker", "Carry out jobs until told to stop."),
    "doctor": ("dialectic.cli.doctor", "Check that everything this program needs is in order."),
    "db": ("dialectic.cli.db", "The database: migrate, url, shell, stop."),
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
        command: click.Command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="State lives in DIALECTIC_HOME. Documents and JSON go to stdout, all else to stderr.",
)
@click.version_option(version("dialectic-engine"), prog_name="dialectic")
def cli() -> None:
    """Several language models argue until a plan holds."""


def main() -> None:
    """Run the command; an error that we know the meaning of becomes one message and a code."""
    try:
        cli.main(prog_name="dialectic", standalone_mode=False)
    except DialecticError as error:
        click.echo(f"dialectic: {error.message}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except BrokenPipeError:
        # Whoever read our output has had enough; there is nobody left to tell.
        sys.stderr.close()
        sys.exit(ExitCode.FAILED)
