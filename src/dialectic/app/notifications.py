"""A person's notifications: list, count, mark as read."""

from __future__ import annotations

from uuid import UUID

from dialectic.app.transaction import Transaction
from dialectic.contract.notifications import Notification, NotificationPage, ReadResult
from dialectic.db.tables import notifications


async def list_newest(
    tx: Transaction, *, unread: bool = False, before_id: int | None = None, limit: int
) -> NotificationPage:
    """List the caller's notifications, newest first, and count the unread ones.

    The page has no cursor: the API makes one from the id of its last notification.
    """
    user_id = tx.account.user_id
    rows = await notifications.list_notifications(
        tx.connection, user_id, before_id=before_id, unread_only=unread, limit=limit
    )
    return NotificationPage(
        items=[Notification.model_validate(row) for row in rows],
        next_cursor=None,
        unread_count=await notifications.count_unread(tx.connection, user_id),
    )


async def mark_read(tx: Transaction, notification_id: int) -> None:
    """Mark one notification as read; idempotent."""
    await notifications.mark_read(tx.connection, tx.account.user_id, notification_id)


async def mark_all_read(
    tx: Transaction, *, up_to: int | None = None, session_id: UUID | None = None
) -> ReadResult:
    """Mark the caller's notifications as read: up to one, of one session, or all. Idempotent."""
    user_id = tx.account.user_id
    count = await notifications.mark_all_read(
        tx.connection, user_id, up_to=up_to, session_id=session_id
    )
    left = await notifications.count_unread(tx.connection, user_id)
    return ReadResult(read_count=count, unread_count=left)
