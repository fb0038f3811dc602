"""`dialectic chat`: a conversation with one model, in the terminal or through pipes."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from uuid import UUID

import click

from dialectic import chat as service
from dialectic.cli.terminal import (
    Desk,
    count,
    echo_json,
    load_settings,
    open_desk,
    printable,
    run_async,
    say,
)
from dialectic.errors import DialecticError, ExitCode
from dialectic.providers.catalog import choose_default_models
from dialectic.store import chats
from dialectic.store.database import Connection

LISTED_MAX = 20
ASK = "> "


@click.command()
@click.argument("message", required=False)
@click.option("--model", metavar="M", help="The model to ask, as provider/model.")
@click.option("--system", metavar="TEXT", default="", help="What the model is told first.")
@click.option("--chat", "chat_id", metavar="ID", help="Go on with an earlier chat.")
@click.option(
    "--full/--no-full",
    default=True,
    help="Go on with a cut-off answer, or leave it cut off.  [default: go on]",
)
@click.option("--max-output-tokens", type=click.IntRange(min=1), metavar="N")
@click.option("--list", "lists", is_flag=True, help="List the latest chats instead.")
@click.option("--json", "as_json", is_flag=True, help="Answers as JSON, one object a line.")
def chat(
    message: str | None,
    *,
    model: str | None,
    system: str,
    chat_id: str | None,
    full: bool,
    max_output_tokens: int | None,
    lists: bool,
    as_json: bool,
) -> None:
    """Chat with one model. MESSAGE is one question; without it, questions are read line by line
    from a terminal, or as one question from a pipe."""

    async def main() -> ExitCode:
        async with open_desk(load_settings()) as desk:
            if lists:
                await _list(desk, as_json=as_json)
                return ExitCode.DONE
            talk = Talk(desk, full=full, max_output_tokens=max_output_tokens, as_json=as_json)
            talk.model = (
                model or choose_default_models(desk.engine.catalog, desk.engine.settings)[0]
            )
            talk.system = system
            desk.engine.catalog.load_card(talk.model)
            if chat_id is not None:
                await talk.resume(chat_id)
            if message is not None:
                await talk.ask(message)
            elif sys.stdin.isatty():
                await talk.converse()
            else:
                await talk.ask(await asyncio.to_thread(sys.stdin.read))
        return ExitCode.DONE

    sys.exit(run_async(main()))


class Talk:
    """One conversation at a terminal."""

    def __init__(
        self, desk: Desk, *, full: bool, max_output_tokens: int | None, as_json: bool
    ) -> None:
        self.desk = desk
        self.full = full
        self.max_output_tokens = max_output_tokens
        self.as_json = as_json
        self.model = ""
        self.system = ""
        self.chat_id: UUID | None = None

    async def resume(self, text: str) -> None:
        """Go on with a chat that was begun before."""

        async def work(connection: Connection) -> UUID:
            return await chats.find_chat_id(connection, text)

        self.chat_id = await self.desk.engine.db.transact(self.desk.account.tenant_id, work)

    async def converse(self) -> None:
        """Ask for questions until there are no more; a failed one ends nothing."""
        say(f"Chatting with {self.model}. An empty line or ^D ends it.")
        while True:
            line = await asyncio.to_thread(_read_line)
            if not line.strip():
                return
            try:
                await self.ask(line)
            except DialecticError as error:
                say(f"dialectic: {error.message}")

    async def ask(self, message: str) -> None:
        """Ask one question and show its answer as it comes."""
        question = service.Question(
            message=message,
            model=self.model,
            chat_id=self.chat_id,
            system="" if self.chat_id else self.system,
            continues=self.full,
            max_output_tokens=self.max_output_tokens,
        )
        shown = _Shown(is_live=not self.as_json and sys.stdout.isatty())
        reply = await service.send(self.desk.engine, self.desk.account, question, shown.show)
        self.chat_id = reply.chat_id
        if self.as_json:
            echo_json(_describe(reply))
            return
        shown.finish(reply.text)
        say(_sum_up(reply))


class _Shown:
    """What of an answer is on the screen already."""

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live

    def show(self, piece: str) -> None:
        if self._is_live:
            click.echo(printable(piece), nl=False)

    def finish(self, text: str) -> None:
        """End the line that was streamed, or show the whole answer where nothing was."""
        click.echo("" if self._is_live else printable(text))


def _read_line() -> str:
    click.echo(ASK, nl=False, err=True)
    return sys.stdin.readline()


def _sum_up(reply: service.Reply) -> str:
    usage = reply.usage
    parts = [
        f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
        count(reply.calls, "call"),
        f"chat {str(reply.chat_id)[:8]}",
    ]
    if reply.is_incomplete:
        parts.insert(0, f"INCOMPLETE ({', '.join(reply.flags)})")
    return "[" + " · ".join(parts) + "]"


def _describe(reply: service.Reply) -> dict[str, Any]:
    return {
        "chat_id": str(reply.chat_id),
        "message_id": str(reply.message_id),
        "model": reply.model_name,
        "content": reply.text,
        "finish_reason": reply.finish_reason.value,
        "incomplete": reply.is_incomplete,
        "flags": list(reply.flags),
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
            "source": reply.usage.source.value,
        },
        "calls": reply.calls,
    }


async def _list(desk: Desk, *, as_json: bool) -> None:
    async def work(connection: Connection) -> list[dict[str, Any]]:
        return await chats.list_chats(connection, limit=LISTED_MAX)

    rows = await desk.engine.db.transact(desk.account.tenant_id, work)
    if as_json:
        echo_json(rows)
        return
    if not rows:
        say("There are no chats yet. `dialectic chat` begins one.")
    for row in rows:
        click.echo(f"{str(row['id'])[:8]}  {row['messages']:>4}  {printable(row['title'])}")
