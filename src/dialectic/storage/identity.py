"""Whether a store is the one that a database speaks of. Each keeps the same id.

A document's bytes leave the database once they are in storage. Two machines that each write to a
disk of their own would scatter them, so a process whose store is another one does not start; nor
does one whose store is that of another database, which a wrong setting would mix with its own.

The database decides first, which id and which place; the store takes the id on afterwards. Until it
has, the place is marked, so that whoever comes next finishes what a dead process began.
"""

from __future__ import annotations

from uuid import UUID, uuid4

from dialectic.errors import StorageMismatch
from dialectic.storage.files import FileStore
from dialectic.store.database import Database
from dialectic.store.queries import load_queries

SQL = load_queries("identity")
_UNFINISHED = " (not yet set up)"


async def require_identity(files: FileStore, db: Database, *, belongs_together: bool) -> None:
    """Make sure that the store is this database's, or raise; the first one that comes is.

    `belongs_together` says that both lie in one home: a store that was emptied there is still it,
    and one whose database was thrown away is that of the next.
    """
    here = files.place
    rows = await db.fetch(SQL["find_storage"])
    if not rows:
        found = await files.identify(None)
        # An id that another process just gave it is in the database already.
        rows = await db.fetch(SQL["find_storage"])
        if found is not None and not rows and not belongs_together:
            raise StorageMismatch(
                f"{here} holds the documents of another database, and this one has none yet. Set "
                "DIALECTIC_STORAGE_URL to a place of its own; if that database is gone for good, "
                f"delete `{files.id_name}` there."
            )
        await db.fetch(SQL["keep_storage"], found or uuid4(), here + _UNFINISHED)
        rows = await db.fetch(SQL["find_storage"])
    known, place = rows[0]
    is_begun_here = place == here + _UNFINISHED
    found = await files.identify(known if belongs_together or is_begun_here else None)
    if found != known:
        raise StorageMismatch(_describe_mismatch(files, known, place, found))
    if place != here:
        await db.fetch(SQL["move_storage"], here)


def _describe_mismatch(files: FileStore, known: UUID, place: str, found: UUID | None) -> str:
    return (
        f"The documents of this database are kept in {place}, but this process would use "
        f"{files.place}, which is {'another store' if found else 'no store yet'}. Set "
        "DIALECTIC_STORAGE_URL to the same shared place everywhere; if the documents were "
        f"moved there, bring their file `{files.id_name}` along (it holds {known})."
    )
