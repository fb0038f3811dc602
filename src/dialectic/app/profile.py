"""A person's own profile: who they are in this account, and how they want its pages."""

from __future__ import annotations

from dialectic.app import wallet
from dialectic.app.transaction import Transaction
from dialectic.contract.accounts import Me, Preferences, PreferencesChange, Tenant
from dialectic.core.access import Caller
from dialectic.core.stream_position import format_id
from dialectic.db.tables import accounts
from dialectic.db.tables.board import read_moment


async def load_me(tx: Transaction, caller: Caller, csrf_token: str | None) -> Me:
    """Load the caller, their tenants, wallet and preferences, and where their stream continues."""
    account = tx.account
    # First, so that the stream repeats what the rest shows already, and misses nothing.
    moment = await read_moment(tx.connection)
    profile = await accounts.load_profile(tx.connection, account.user_id)
    preferences = Preferences.model_validate(profile.preferences)
    tenants = await accounts.list_tenants(tx.connection, account.user_id)
    return Me(
        user_id=account.user_id,
        name=profile.name,
        display_name=preferences.display_name or profile.name,
        tenant_id=account.tenant_id,
        wallet_id=account.wallet_id,
        scopes=sorted(caller.scopes),
        token_expires_at=caller.expires_at,
        tenants=[Tenant.model_validate(one) for one in tenants],
        wallet=await wallet.get(tx),
        preferences=preferences,
        unread=profile.unread,
        cursor=format_id(account.tenant_id, moment.seq, moment.horizon),
        csrf_token=csrf_token,
    )


async def change_preferences(tx: Transaction, change: PreferencesChange) -> Preferences:
    """Change some of the caller's preferences; null restores a default."""
    changes = change.model_dump(mode="json", exclude_unset=True)
    user_id = tx.account.user_id
    found = await accounts.change_preferences(tx.connection, user_id, changes)
    return Preferences.model_validate(found)
