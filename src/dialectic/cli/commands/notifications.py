"""`dialectic notifications`: messages to you, and which of them you have read."""

from __future__ import annotations

import click

from dialectic.cli.backend import Backend, run_with_backend, with_backend
from dialectic.cli.display.notifications import describe_notification
from dialectic.cli.options import name_command
from dialectic.cli.terminal import count, echo_json, echo_lines, say
from dialectic.errors import ExitCode

LIST_MAX = 200


@click.group(invoke_without_command=True)
@click.option("--all", "is_all", is_flag=True, help="Also those that you have read.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIST_MAX),
    default=50,
    show_default=True,
    help="Maximum number of notifications.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_context
def notifications(context: click.Context, *, is_all: bool, limit: int, as_json: bool) -> None:
    """Show the messages to you, newest first: what failed, waits for you or is done."""
    if context.invoked_subcommand is None:
        run_with_backend(lambda backend: show(backend, limit, is_all=is_all, as_json=as_json))


async def show(backend: Backend, limit: int, *, is_all: bool, as_json: bool) -> ExitCode:
    """Show notifications; this does not mark them as read."""
    page = await backend.list_notifications(limit, unread=not is_all)
    if as_json:
        echo_json({"notifications": page.items, "unread_count": page.unread_count})
        return ExitCode.DONE
    for one in page.items:
        echo_lines(describe_notification(one))
    if not page.items:
        say("No notifications." if is_all else "No unread notifications.")
    elif page.unread_count:
        say(f"`{name_command('notifications read')}` marks them as read.")
    return ExitCode.DONE


@notifications.command()
@click.argument("ids", metavar="[ID]...", nargs=-1, type=click.IntRange(0, 2**63 - 1))
@with_backend
async def read(backend: Backend, ids: tuple[int, ...]) -> None:
    """Mark notifications as read: the given ones, or all."""
    for notification_id in ids:
        await backend.mark_read(notification_id)
    if ids:
        say(f"{count(len(ids), 'notification')} marked as read.")
        return
    result = await backend.mark_all_read()
    say(f"{count(result.read_count, 'notification')} marked as read.")
