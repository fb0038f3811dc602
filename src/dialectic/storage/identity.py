"""Whether a store is the one that a database speaks of. Each keeps the same id.

A document's bytes leave the database once they are in storage. Two machines that each write to a
disk of their own would scatter them, so a process whose store is another one does not start.
"""

from __future__ import annotations

import socket
from uuid import uuid4

from dialectic.errors import StorageMismatch
from dialectic.storage.files import FileStore
from dialectic.store.database import Database
from dialectic.store.queries import load_queries

SQL = load_queries("identity")


async def require_identity(files: FileStore, db: Database, *, belongs_together: bool) -> None:
    """Make sure that the store is this database's, or raise; the first one that comes is.

    `belongs_together` says that both lie in one home: a store that was emptied there is still it.
    """
    here = f"{files.place} on {socket.gethostname()}"
    rows = await db.fetch(SQL["find_storage"])
    if not rows:
        await db.fetch(SQL["keep_storage"], await files.identify(uuid4()), here)
        rows = await db.fetch(SQL["find_storage"])
    known, place = rows[0]
    found = await files.identify(known if belongs_together else None)
    if found != known:
        raise StorageMismatch(
            f"The documents of this database are kept in {place}, but this process would use "
            f"{here}, which is {'another store' if found else 'no store yet'}. Set "
            "DIALECTIC_STORAGE_URL to the same shared folder everywhere; if the documents were "
            f"moved there, bring their file `{files.id_name}` along (it holds {known})."
        )
    if place != here:
        await db.fetch(SQL["move_storage"], here)
