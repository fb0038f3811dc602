"""Who asks, money, models, processes, news: as they are asked for and answered. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from dialectic.client.call import Answer, Call, Page, get, get_bytes, ignore_body


class Tenant(Answer, frozen=True):
    """An account that the caller belongs to."""

    id: UUID
    name: str
    kind: str
    role: str


class Me(Answer, frozen=True):
    """Who the token acts for."""

    user_id: UUID
    tenant_id: UUID
    wallet_id: UUID
    scopes: list[str]
    token_expires_at: datetime | None
    tenants: list[Tenant]


class Money(Answer, frozen=True):
    """What a wallet holds of one kind of money, in US dollars."""

    balance: str
    held: str
    available: str


class Wallet(Answer, frozen=True):
    """A wallet: real money, and play money apart from it."""

    id: UUID
    user_id: UUID | None
    is_count_only: bool
    money: Money
    play_money: Money


class Transaction(Answer, frozen=True):
    """One transfer, as the wallet saw it."""

    id: int
    type: str
    is_play: bool
    amount: str
    change: str
    balance_after: str
    notes: str | None
    purpose: str | None
    model: str | None
    session_id: UUID | None
    stage: str | None
    created_at: datetime


class Model(Answer, frozen=True, extra="allow"):
    """A model, what it costs, and whether it can be asked there."""

    name: str
    state: str
    is_usable: bool
    note: str
    origin: str


class ProcessLine(Answer, frozen=True):
    """A process that has a name."""

    name: str
    title: str
    description: str
    domains: list[str]
    stages: list[str]
    is_shipped: bool
    problem: str | None


class Process(ProcessLine, frozen=True):
    """A process as it was written, with its prompts."""

    content_hash: str
    definition: dict[str, Any]


class Notification(Answer, frozen=True):
    """A message to a person."""

    id: int
    type: str
    title: str | None
    message: str | None
    link_path: str | None
    session_id: UUID | None
    data: dict[str, Any]
    read_at: datetime | None
    created_at: datetime


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


def list_processes() -> Call[Page[ProcessLine]]:
    """List the processes that sessions can follow."""
    return get("/processes", Page[ProcessLine])


def get_process(name: str) -> Call[Process]:
    """Look at a process: its stages, steps and prompts."""
    return get(f"/processes/{name}", Process)


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
