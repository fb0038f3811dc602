"""`dialectic chat`: a conversation with one model, in the terminal or through pipes."""

from __future__ import annotations

import asyncio
import sys
from uuid import UUID

import click

from dialectic.cli.aliases import expand_model
from dialectic.cli.backend import Backend, get_id_to_change, with_backend
from dialectic.cli.error_report import report_error
from dialectic.cli.input import read_text
from dialectic.cli.terminal import count, echo_json, printable, read_terminal_line, say
from dialectic.contract.chats import ChatReply, ChatRequest, ChatSummary
from dialectic.contract.projects import Kind
from dialectic.core.money.price import LIMITED_BY_FUNDS
from dialectic.errors import DialecticError, NotFound, UsageError

LISTED_MAX = 20
ASK = "> "


@click.command()
@click.argument("message", required=False)
@click.option("--model", metavar="M", help="The model to ask, as provider/model.")
@click.option("--system", metavar="TEXT", default="", help="The system instruction.")
@click.option(
    "--system-prompt", metavar="ID", help="A system prompt of a process, by id or name, instead."
)
@click.option("--chat", "chat_id", metavar="ID", help="Continue an earlier chat.")
@click.option(
    "--full/--no-full",
    default=True,
    help="Continue a truncated reply, or leave it truncated.  [default: continue]",
)
@click.option(
    "--max-output-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum length of one call's reply.",
)
@click.option("--list", "lists", is_flag=True, help="List the latest chats instead.")
@click.option("--system-prompts", is_flag=True, help="List the system prompts instead.")
@click.option("--json", "as_json", is_flag=True, help="Print replies as JSON, one object per line.")
@with_backend
async def chat(
    backend: Backend,
    message: str | None,
    *,
    model: str | None,
    system: str,
    system_prompt: str | None,
    chat_id: str | None,
    full: bool,
    max_output_tokens: int | None,
    lists: bool,
    system_prompts: bool,
    as_json: bool,
) -> None:
    """Chat with one model. MESSAGE is one question; without it, questions are read line by line
    from a terminal, or as one question from a pipe."""
    if lists:
        await _list(backend, as_json=as_json)
        return
    if system_prompts:
        await _list_prompts(backend, as_json=as_json)
        return
    talk = Talk(backend, full=full, max_output_tokens=max_output_tokens, as_json=as_json)
    wished = model and expand_model(model, backend.settings.home)
    talk.model = await backend.choose_model(wished)
    talk.system = system
    if system_prompt is not None:
        talk.system_prompt_id = await _get_prompt_id(backend, system_prompt, system)
    if chat_id is not None:
        talk.chat_id = await get_id_to_change(backend, Kind.CHAT, chat_id)
    if message is not None:
        await talk.ask(message)
    elif sys.stdin.isatty():
        await talk.converse()
    else:
        await talk.ask(await asyncio.to_thread(read_text, "-", None, what="message"))


class Talk:
    """One conversation at a terminal."""

    def __init__(
        self, backend: Backend, *, full: bool, max_output_tokens: int | None, as_json: bool
    ) -> None:
        self.backend = backend
        self.full = full
        self.max_output_tokens = max_output_tokens
        self.as_json = as_json
        self.model = ""
        self.system = ""
        self.system_prompt_id: UUID | None = None
        self.chat_id: UUID | None = None

    async def converse(self) -> None:
        """Read questions until the input ends; continue after a failed one."""
        say(f"Chatting with {self.model}. An empty line or ^D ends it.")
        while True:
            line = await read_terminal_line(ASK)
            if not line.strip():
                return
            try:
                await self.ask(line)
            except DialecticError as error:
                report_error(error)

    async def ask(self, message: str) -> None:
        """Send one question and stream its reply."""
        question = ChatRequest.model_construct(  # the backend checks it
            message=message,
            model=self.model,
            chat_id=self.chat_id,
            system_instruction="" if self.chat_id else self.system,
            system_prompt_id=None if self.chat_id else self.system_prompt_id,
            continue_until_complete=self.full,
            max_output_tokens=self.max_output_tokens,
        )
        shown = _Shown(is_live=not self.as_json and sys.stdout.isatty())
        try:
            reply = await self.backend.send(question, shown.show)
        except asyncio.CancelledError:
            shown.end_line()
            say("Interrupted. The reply is not saved; your provider may bill for it.")
            raise
        self.chat_id = reply.chat_id
        if self.as_json:
            echo_json(_build_json(reply))
            return
        shown.finish(reply.content)
        say(_sum_up(reply))


class _Shown:
    """The part of a reply that is already on the screen."""

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live
        self._shown = ""

    def show(self, piece: str) -> None:
        if self._is_live:
            self._shown += piece
            click.echo(printable(piece), nl=False)

    def end_line(self) -> None:
        """End a line that was begun."""
        if self._shown and not self._shown.endswith("\n"):
            click.echo()

    def finish(self, text: str) -> None:
        """Print the rest of the reply, or all of it if nothing was streamed."""
        rest = text.removeprefix(self._shown)
        if self._shown and rest == text:
            # A retry has produced another text.
            click.echo("\n")
        click.echo(printable(rest))


def _sum_up(reply: ChatReply) -> str:
    usage = reply.usage
    parts = [
        f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out",
        count(usage.calls, "call"),
        f"chat {str(reply.chat_id)[:8]}",
    ]
    if reply.incomplete:
        parts.insert(0, f"INCOMPLETE ({', '.join(reply.flags)})")
    elif any(flag.startswith(LIMITED_BY_FUNDS) for flag in reply.flags):
        parts.insert(0, "its length was limited by the available money")
    return "[" + " · ".join(parts) + "]"


def _build_json(reply: ChatReply) -> dict[str, object]:
    shown = reply.model_dump(exclude={"question_id": True, "usage": {"calls"}})
    return {**shown, "calls": reply.usage.calls}


def _build_listed(row: ChatSummary) -> dict[str, object]:
    used = {} if row.last_at is None else {"last_at": row.last_at}
    return {**row.model_dump(), **used}


async def _list(backend: Backend, *, as_json: bool) -> None:
    rows = await backend.list_chats(LISTED_MAX)
    if as_json:
        echo_json([_build_listed(row) for row in rows])
        return
    if not rows:
        say("No chats yet. `dialectic chat` starts one.")
    for row in rows:
        click.echo(f"{str(row.id)[:8]}  {row.messages:>4}  {printable(row.title)}")


async def _get_prompt_id(backend: Backend, text: str, system: str) -> UUID:
    """Find a system prompt by its name or a prefix of its id; the newest of a name wins."""
    if system:
        raise UsageError(
            "Give the system instruction with --system or with --system-prompt, not both.",
            reason="two_texts",
            subject="--system-prompt",
        )
    prompts = await backend.list_system_prompts()
    digits = text.replace("-", "").lower()
    for one in prompts:
        if one.name == text or (digits and one.id.hex.startswith(digits)):
            return one.id
    known = ", ".join(dict.fromkeys(one.name for one in prompts)) or "none yet"
    raise NotFound(
        f"System prompt {text!r} does not exist. Known: {known}.",
        reason="no_system_prompt",
        subject=text,
    )


async def _list_prompts(backend: Backend, *, as_json: bool) -> None:
    prompts = await backend.list_system_prompts()
    if as_json:
        echo_json(prompts)
        return
    if not prompts:
        say("No system prompts yet: the first session of a process brings its prompts.")
    for one in prompts:
        used = ", ".join(one.processes)
        kind = "role" if one.is_role else "template"
        click.echo(printable(f"{str(one.id)[:8]}  {kind:<8}  {one.name}  ({used})"))
