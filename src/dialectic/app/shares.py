"""Links to reports, for people without an account: made, listed, opened, revoked.

A link holds 256 random bits; only their hash is stored. A pass phrase is hashed with scrypt, which
takes a tenth of a second and 32 MB for each guess. The report is built from the session as it is
when someone opens the link, at most once a minute; whether the link still works is looked up each
time. A link that has ended, was revoked or never was is the same: not found.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from dialectic.app.report import ReportOptions, build_session_report
from dialectic.app.request_rates import RequestRates
from dialectic.app.transaction import Transaction
from dialectic.contract.shares import IssuedShare, Share, ShareRequest
from dialectic.db.tables import records
from dialectic.db.tables import shares as store
from dialectic.db.tables.shares import FoundShare, NewShare
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound

PATH = "/s/"
SECRET_BYTES = 32
SHARES_MAX = 50
# A report is built again after this time.
KEPT_S = 60.0
KEPT_BYTES_MAX = 32_000_000
VIEWS_PER_S, VIEWS_AT_ONCE = 5.0, 20.0
GUESSES_PER_S, GUESSES_AT_ONCE = 0.2, 5.0
# Each guess takes 32 MB.
HASHED_AT_ONCE = 2
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_SCRYPT: dict[str, Any] = {"n": 1 << 15, "r": 8, "p": 1, "maxmem": 64 << 20, "dklen": 32}


# -- for those who share ---------------------------------------------------------------------------


async def create(tx: Transaction, session_id: UUID, wanted: ShareRequest) -> IssuedShare:
    """Make a link to a session's report; its secret is returned once."""
    connection, account = tx.connection, tx.account
    await records.load_session(connection, session_id)
    if await store.count_shares(connection, session_id) >= SHARES_MAX:
        raise Conflict(
            f"The session has {SHARES_MAX} links. Revoke one that is not needed.",
            reason="too_many_shares",
            subject=str(session_id),
            limit=SHARES_MAX,
        )
    secret = secrets.token_urlsafe(SECRET_BYTES)
    salt = pass_hash = None
    if wanted.pass_phrase is not None:
        salt = secrets.token_bytes(16)
        pass_hash = await asyncio.to_thread(_hash_phrase, wanted.pass_phrase, salt)
    share_id = tx.derive_id("share")
    new = NewShare(
        tenant_id=account.tenant_id,
        id=share_id,
        session_id=session_id,
        user_id=account.user_id,
        secret_sha256=_hash_secret(secret),
        pass_salt=salt,
        pass_hash=pass_hash,
        has_drafts=wanted.drafts,
        has_names=wanted.names,
        life=timedelta(days=wanted.days),
    )
    await store.insert_share(connection, new)
    [row] = await store.list_shares(connection, session_id, share_id)
    return IssuedShare.model_validate({**row, "path": f"{PATH}{secret}"})


async def list_shares(tx: Transaction, session_id: UUID) -> list[Share]:
    """List the links to a session's report that work, oldest first."""
    await records.load_session(tx.connection, session_id)
    rows = await store.list_shares(tx.connection, session_id)
    return [Share.model_validate(row) for row in rows]


async def revoke(tx: Transaction, share_id: UUID) -> None:
    """Revoke a link. It leads nowhere from then on."""
    if not await store.delete_share(tx.connection, share_id):
        raise NotFound(
            f"Share {share_id} does not exist.", reason="no_share", subject=str(share_id)
        )


# -- for those who read ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Locked:
    """A report that asks for its pass phrase; another one may have been given."""

    is_wrong: bool


@dataclass(slots=True)
class SharedReports:
    """The reports that were opened lately, and how often links may be opened, in this process."""

    kept: OrderedDict[UUID, tuple[float, bytes]] = field(default_factory=OrderedDict)
    views: RequestRates = field(default_factory=lambda: RequestRates(VIEWS_PER_S, VIEWS_AT_ONCE))
    guesses: RequestRates = field(
        default_factory=lambda: RequestRates(GUESSES_PER_S, GUESSES_AT_ONCE)
    )
    hashing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(HASHED_AT_ONCE))

    def find(self, share_id: UUID) -> bytes | None:
        """Find a report that is not older than a minute."""
        built_at, page = self.kept.get(share_id, (0.0, b""))
        return page if page and time.monotonic() - built_at < KEPT_S else None

    def keep(self, share_id: UUID, page: bytes) -> None:
        """Keep a report, and drop the oldest ones if there are too many."""
        self.kept.pop(share_id, None)
        self.kept[share_id] = (time.monotonic(), page)
        kept_bytes = sum(len(one) for _, one in self.kept.values())
        while kept_bytes > KEPT_BYTES_MAX and len(self.kept) > 1:
            kept_bytes -= len(self.kept.popitem(last=False)[1][1])


def get_shared_reports(engine: Engine) -> SharedReports:
    """Return what this process knows of opened links."""
    found = engine.made.setdefault("shared_reports", SharedReports())
    assert isinstance(found, SharedReports)
    return found


async def open_report(
    engine: Engine, secret: str, pass_phrase: str | None = None
) -> bytes | Locked:
    """Build the report that a link leads to, unless it is locked; raise if it leads nowhere."""
    share = await _find(engine, secret)
    if not await _unlocks(engine, share, pass_phrase):
        return Locked(is_wrong=bool(pass_phrase))
    reports = get_shared_reports(engine)
    async with engine.turns.lock(("share", share.share_id)):
        page = reports.find(share.share_id)
        if page is None:
            options = ReportOptions(drafts=share.has_drafts, names=share.has_names)
            found = (share.tenant_id, share.session_id)
            page = (await build_session_report(engine, *found, options)).encode()
            reports.keep(share.share_id, page)
    return page


async def _find(engine: Engine, secret: str) -> FoundShare:
    views = get_shared_reports(engine).views
    digest = _hash_secret(secret)
    share = None
    if _SECRET.fullmatch(secret) is not None:
        share = await store.find_share(engine.db, digest)
    # All guesses of secrets share one rate, and each link has its own.
    views.admit(None if share is None else share.share_id, "reports")
    if share is None:
        raise NotFound("This link leads nowhere: it has ended, or was never there.")
    return share


async def _unlocks(engine: Engine, share: FoundShare, given: str | None) -> bool:
    """Tell whether a pass phrase is the one of a share, or whether it has none."""
    if share.pass_hash is None or share.pass_salt is None:
        return True
    if not given:
        return False
    reports = get_shared_reports(engine)
    reports.guesses.admit(share.share_id, "pass phrases")
    async with reports.hashing:
        found = await asyncio.to_thread(_hash_phrase, given[:1000], share.pass_salt)
    return hmac.compare_digest(found, share.pass_hash)


def _hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _hash_phrase(phrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(phrase.encode(errors="replace"), salt=salt, **_SCRYPT)
