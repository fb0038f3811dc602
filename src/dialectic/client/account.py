"""Calls for the account, wallet, models, processes and events. Pure."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from dialectic.client.call import Call, get, get_bytes, ignore_body
from dialectic.contract.accounts import (
    Me,
    Model,
    Notification,
    ProcessDetail,
    ProcessSummary,
    Transaction,
    Wallet,
)
from dialectic.contract.base import Page

# -- asked -----------------------------------------------------------------------------------------


def get_me() -> Call[Me]:
    """Show your user, your tenant and the scopes of your token."""
    return get("/me", Me)


def get_wallet() -> Call[Wallet]:
    """Show your wallet's balance."""
    return get("/wallet", Wallet)


def list_transactions() -> Call[Page[Transaction]]:
    """List your wallet's transactions, newest first."""
    return get("/wallet/transactions", Page[Transaction])


def list_models() -> Call[Page[Model]]:
    """List the models that the server knows."""
    return get("/models", Page[Model])


def list_processes() -> Call[Page[ProcessSummary]]:
    """List the processes that a session can run."""
    return get("/processes", Page[ProcessSummary])


def get_process(name: str) -> Call[ProcessDetail]:
    """Show a process: its stages, steps and prompts."""
    return get(f"/processes/{name}", ProcessDetail)


def list_notifications(*, unread: bool = False) -> Call[Page[Notification]]:
    """List the messages to you, newest first."""
    return get("/notifications", Page[Notification], unread=unread or None)


def mark_read(notification_id: int) -> Call[None]:
    """Mark a message as read. Repeating it changes nothing."""
    path = f"/notifications/{notification_id}/read"
    return Call(method="POST", path=path, read=ignore_body, key="")


def follow_events(*, after: str | None, session_id: UUID | None) -> Call[bytes]:
    """Stream events, starting after the last one received."""
    call = get_bytes("/events", session=session_id)
    return replace(call, headers={} if after is None else {"Last-Event-ID": after})
