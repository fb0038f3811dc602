"""Who asks, money, models, processes, news: as they are asked for and answered. Pure."""

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
    """Say who you are there, and what your token allows."""
    return get("/me", Me)


def get_wallet() -> Call[Wallet]:
    """Say what your wallet holds."""
    return get("/wallet", Wallet)


def list_transactions() -> Call[Page[Transaction]]:
    """List what happened to your wallet, the newest first."""
    return get("/wallet/transactions", Page[Transaction])


def list_models() -> Call[Page[Model]]:
    """List the models that are known there."""
    return get("/models", Page[Model])


def list_processes() -> Call[Page[ProcessSummary]]:
    """List the processes that sessions can follow."""
    return get("/processes", Page[ProcessSummary])


def get_process(name: str) -> Call[ProcessDetail]:
    """Look at a process: its stages, steps and prompts."""
    return get(f"/processes/{name}", ProcessDetail)


def list_notifications(*, unread: bool = False) -> Call[Page[Notification]]:
    """List the messages to you, the newest first."""
    return get("/notifications", Page[Notification], unread=unread or None)


def mark_read(notification_id: int) -> Call[None]:
    """Note that you have read a message; a second time changes nothing."""
    path = f"/notifications/{notification_id}/read"
    return Call(method="POST", path=path, read=ignore_body, key="")


def follow_events(*, after: str | None, session_id: UUID | None) -> Call[bytes]:
    """Follow everything that happens, from the last event that was seen on."""
    call = get_bytes("/events", session=session_id)
    return replace(call, headers={} if after is None else {"Last-Event-ID": after})
