"""The storage port: what every store of files can do, and which one an address names.

A key is `{tenant}/{path}`. A store knows keys and bytes; it does not know what they mean.

Whether a store is the one that a database speaks of. Each keeps the same id.

A document's bytes leave the database once they are in storage. Two machines that each write to a
disk of their own would scatter them, so a process whose store is another one does not start; nor
does one whose store is that of another database, which a wrong setting would mix with its own.

The database decides first, which id and which place; the store takes the id on afterwards. Until it
has, the place is marked, so that whoever comes next finishes what a dead process began.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit
from uuid import UUID, uuid4

from dialectic.core.bucket import Access, parse_bucket
from dialectic.db.pool import Database
from dialectic.db.queries import load_queries
from dialectic.errors import ConfigurationError, StorageMismatch
from dialectic.storage.keys import Keys
from dialectic.storage.local import DiskStore
from dialectic.storage.s3 import ObjectStore


class FileStore(Protocol):
    """Where files are kept. A cancelled call may still take effect, but only as a whole."""

    async def write(self, key: str, data: bytes) -> None:
        """Put the bytes under the key: all of them, durably, or none if it fails."""
        ...

    async def write_file(self, key: str, source: Path) -> None:
        """Do the same with the bytes of a file on this machine, however large it is."""
        ...

    async def read(self, key: str) -> bytes:
        """Return the bytes under the key; `NotFound` if there are none."""
        ...

    def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the bytes under the key, a part at a time; `NotFound` if there are none."""
        ...

    async def list(self, prefix: str) -> Keys:
        """Return the keys in the folder `prefix` and below, in order; "" is the whole store."""
        ...

    async def delete(self, key: str) -> None:
        """Take the key away; nothing happens if it is not there."""
        ...

    def locate(self, key: str) -> str:
        """Say where the key's file is, for a person."""
        ...

    def build_link(self, key: str, expires_s: float, /) -> str | None:
        """Build an address at which anyone can read the key for a while; None if there is no such.

        Without one, whoever serves the file reads it himself and passes it on.
        """
        ...

    async def identify(self, wanted: UUID | None) -> UUID | None:
        """Return the store's own id. One that has none takes on the wanted one, if there is one."""
        ...

    @property
    def place(self) -> str:
        """Where the store is, for a person."""
        ...

    @property
    def id_name(self) -> str:
        """The name under which the store keeps its id, for a person."""
        ...


def open_store(url: str, access: Access | None = None) -> FileStore:
    """Open the store an address names; `access` says how, if that is a server."""
    # The address may hold keys: only its scheme is ever repeated in a message.
    try:
        address = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(
            "DIALECTIC_STORAGE_URL is not an address.",
            reason="not_an_address",
            subject="DIALECTIC_STORAGE_URL",
        ) from error
    if address.scheme == "file":
        return DiskStore(_parse_folder(address))
    if address.scheme == "s3":
        return ObjectStore(parse_bucket(address, access or Access()))
    raise ConfigurationError(
        f"DIALECTIC_STORAGE_URL has the scheme {address.scheme[:20]!r}; known are: file, as in"
        " file:///var/lib/dialectic, and s3, as in s3://bucket/folder.",
        reason="unknown_scheme",
        subject="DIALECTIC_STORAGE_URL",
    )


def _parse_folder(address: SplitResult) -> Path:
    path = os.fsdecode(unquote_to_bytes(address.path))
    if (
        address.netloc not in ("", "localhost")
        or address.query
        or address.fragment
        or not path.startswith("/")
        or "\0" in path
    ):
        raise ConfigurationError(
            "DIALECTIC_STORAGE_URL must be file:// and an absolute path, as in"
            " file:///var/lib/dialectic; write # as %23 and ? as %3F.",
            reason="not_a_folder",
            subject="DIALECTIC_STORAGE_URL",
        )
    return Path(path)


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
                f"delete `{files.id_name}` there.",
                reason="another_database",
                subject="DIALECTIC_STORAGE_URL",
            )
        await db.fetch(SQL["keep_storage"], found or uuid4(), here + _UNFINISHED)
        rows = await db.fetch(SQL["find_storage"])
    known, place = rows[0]
    is_begun_here = place == here + _UNFINISHED
    found = await files.identify(known if belongs_together or is_begun_here else None)
    if found != known:
        raise StorageMismatch(
            _describe_mismatch(files, known, place, found),
            reason="another_store" if found else "no_store",
            subject="DIALECTIC_STORAGE_URL",
        )
    if place != here:
        await db.fetch(SQL["move_storage"], here)


def _describe_mismatch(files: FileStore, known: UUID, place: str, found: UUID | None) -> str:
    return (
        f"The documents of this database are kept in {place}, but this process would use "
        f"{files.place}, which is {'another store' if found else 'no store yet'}. Set "
        "DIALECTIC_STORAGE_URL to the same shared place everywhere; if the documents were "
        f"moved there, bring their file `{files.id_name}` along (it holds {known})."
    )
