"""Converts API responses to the engine's types. Pure."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from dialectic.app.chat import Reply
from dialectic.app.quotes import CheaperRun, QuotedRun, SessionQuote
from dialectic.app.search import Hit, Results
from dialectic.app.sessions import Overview
from dialectic.app.transfer import Imported
from dialectic.contract import accounts as contract_accounts
from dialectic.contract import chats as contract_chats
from dialectic.contract import projects as contract_projects
from dialectic.contract import sessions as contract_sessions
from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import CREDITS_PER_USD
from dialectic.core.money.quote import Quote
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.core.run_request import RunRequest
from dialectic.errors import ConfigurationError
from dialectic.ledger.audit import Cost, Transfer
from dialectic.ledger.wallets import Wallet
from dialectic.providers.base import ListedModel
from dialectic.providers.catalog import Origin
from dialectic.providers.model_list import Row, State
from dialectic.storage.keys import is_part

QUOTE, SESSION_QUOTE = TypeAdapter(Quote), TypeAdapter(SessionQuote)
FINISH, SOURCE, ORIGIN = TypeAdapter(FinishReason), TypeAdapter(UsageSource), TypeAdapter(Origin)


def revive(record: dict[str, Any]) -> dict[str, Any]:
    """Parse the ids and times of a record."""
    return {key: _revive(key, value) for key, value in record.items()}


def _revive(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if key == "id" or key.endswith("_id"):
        return _parse_id(value)
    return datetime.fromisoformat(value) if key.endswith("_at") else value


def _parse_id(text: str) -> UUID | str:
    try:
        return UUID(text)
    except ValueError:  # for example a provider's own id
        return text


def check_path(path: str) -> str:
    """Reject a path that leaves its folder: the server is not trusted with paths."""
    if not all(map(is_part, path.split("/"))):
        raise ConfigurationError(
            f"The server sent the file path {path[:200]!r}, which leaves the target folder. "
            "Nothing was written. Check the server's address.",
            reason="leads_out",
            subject=path,
        )
    return path


def list_given(ask: RunRequest) -> list[dict[str, str]]:
    """List the resources of a run in the API's format."""
    return [
        {"kind": given.kind.value, "name": given.name, "text": given.text}
        for given in ask.resources
    ]


def build_quoted(response: contract_sessions.RunQuote) -> QuotedRun:
    """Build the quote of a run that has not started."""
    return QuotedRun(
        quote=QUOTE.validate_python(response.lines),
        models=tuple(response.models),
        shrink=response.shrink,
        fits=response.fits,
        left_out=tuple(response.left_out),
        smaller=tuple(
            CheaperRun(one.rungs, one.left_out, QUOTE.validate_python(one.lines))
            for one in response.smaller
        ),
        has_chosen_models=response.has_chosen_models,
    )


def build_session_quote(response: contract_sessions.SessionDetail) -> SessionQuote:
    """Build the quote of a session's remaining work."""
    return SESSION_QUOTE.validate_python(response.quote)


def build_overview(response: contract_sessions.SessionDetail) -> Overview:
    """Build the overview of a session from records."""
    return Overview(
        session=revive(response.session),
        stages=[revive(row) for row in response.stages],
        jobs=[revive(row) for row in response.jobs],
        contributions=[revive(row) for row in response.contributions],
    )


def read_credits(dollars: str) -> int:
    """Convert exact dollars to credits (millionths)."""
    return int(Decimal(dollars) * CREDITS_PER_USD)


def show_usd(amount_credits: int) -> str:
    """Convert credits (millionths) to exact dollars."""
    return f"{Decimal(amount_credits) / CREDITS_PER_USD:f}"


def build_wallet(response: contract_accounts.Wallet) -> Wallet:
    """Build a wallet."""
    return Wallet(
        id=response.id,
        user_id=response.user_id,
        balance_credits=read_credits(response.money.balance),
        held_credits=read_credits(response.money.held),
        play_balance_credits=read_credits(response.play_money.balance),
        play_held_credits=read_credits(response.play_money.held),
        is_count_only=response.is_count_only,
    )


def build_transfer(response: contract_accounts.Transaction) -> Transfer:
    """Build one row of the journal."""
    return Transfer(
        id=response.id,
        created_at=response.created_at,
        transaction_type=response.type,
        is_play=response.is_play,
        amount_credits=read_credits(response.amount),
        change_credits=read_credits(response.change),
        balance_after_credits=read_credits(response.balance_after),
        notes=response.notes,
        purpose=response.purpose,
        model_name=response.model,
        session_id=response.session_id,
        stage_slug=response.stage,
    )


def build_cost(response: contract_accounts.Cost) -> Cost:
    """Build one cost line of a session. The API does not report uncharged costs."""
    return Cost(
        stage_slug=response.stage,
        model_name=response.model,
        purpose=response.purpose,
        is_play=response.is_play,
        calls=response.calls,
        input_tokens=response.input_tokens,
        output_tokens=response.output_tokens,
        charged_credits=read_credits(response.charged),
        overrun_credits=0,
        lost_calls=0,
        lost_credits=0,
        held_credits=read_credits(response.held),
    )


def build_imported(response: contract_projects.ImportedProject) -> Imported:
    """Build the result of an import."""
    return Imported(
        project_id=response.project_id,
        slug=response.slug,
        name=response.name,
        session_ids=tuple(response.session_ids),
        file_count=response.files,
        is_copy=response.is_copy,
        waiting=(),
    )


def build_reply(response: contract_chats.ChatReply) -> Reply:
    """Build a chat reply."""
    return Reply(
        chat_id=response.chat_id,
        question_id=response.question_id,
        message_id=response.message_id,
        text=response.content,
        model_name=response.model,
        finish_reason=FINISH.validate_python(response.finish_reason),
        is_incomplete=response.incomplete,
        flags=tuple(response.flags),
        usage=Usage(
            response.usage.input_tokens,
            response.usage.output_tokens,
            SOURCE.validate_python(response.usage.source),
        ),
        calls=response.usage.calls,
    )


def build_results(response: contract_projects.SearchResults) -> Results:
    """Build search results."""
    hits = [
        Hit(**{**dict(found), "heading_path": tuple(found.heading_path)})
        for found in response.items
    ]
    return Results(tuple(hits), response.documents, response.embedder, response.embedded_tokens)


def build_process_of(response: contract_accounts.ProcessDetail) -> Process:
    """Build a process from its definition."""
    written = response.definition
    overlays = list(written["overlays"].values())
    return build_process(written["file"], written["prompts"], overlays, place=response.name)


def build_row(response: contract_accounts.Model) -> Row:
    """Build one row of the model list."""
    state, facts = State[response.state.upper()], response.model_extra or {}
    if response.origin == "listed":
        listed = ListedModel(response.name.split("/", 1)[1])
        return Row(response.name, state, response.note, listed=listed)
    day = facts["facts_of"]
    card = ModelCard(
        name=response.name,
        context_window_tokens=facts["context_window_tokens"],
        max_input_tokens=facts["max_input_tokens"],
        max_output_tokens=facts["max_output_tokens"],
        input_credits_per_token=Decimal(facts["input_usd_per_million"]),
        output_credits_per_token=Decimal(facts["output_usd_per_million"]),
        tokenizer=facts["tokenizer"],
        is_reasoning=facts["is_reasoning"],
        supports_system_prompt=facts["supports_system_prompt"],
        facts_of=None if day is None else date.fromisoformat(day),
    )
    return Row(response.name, state, response.note, card, ORIGIN.validate_python(response.origin))
