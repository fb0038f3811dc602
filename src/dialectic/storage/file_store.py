"""The storage interface, the choice of a store by URL, and the check that it is the right store.

A key is `{tenant}/{path}`. A store knows keys and bytes, not what they mean.

A store and its database keep the same id. A document's bytes leave the database once they are in
storage. Two machines that each write to their own disk would scatter them, so a process with a
different store does not start; nor does one whose store belongs to another database, which a wrong
setting would mix up.

The database first decides on the id and the place; then the store saves the id. Until then the
place is marked, so that the next process finishes what a crashed one began.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit
from uuid import UUID, uuid4

from dialectic.core.bucket import BucketAccess, parse_bucket
from dialectic.db.pool import Database
from dialectic.db.queries import load_queries
from dialectic.errors import ConfigurationError, StorageMismatch
from dialectic.storage.disk import DiskStore
from dialectic.storage.keys import Keys


class FileStore(Protocol):
    """A store of files. A cancelled call may still take effect, but only as a whole."""

    async def write(self, key: str, data: bytes) -> None:
        """Write the bytes under the key: all of them, durably, or none if it fails."""
        ...

    async def write_file(self, key: str, source: Path) -> None:
        """Do the same with a local file of any size."""
        ...

    async def read(self, key: str) -> bytes:
        """Return the bytes under the key; `NotFound` if the key does not exist."""
        ...

    def stream(self, key: str) -> AsyncIterator[bytes]:
        """Yield the bytes under the key in parts; `NotFound` if the key does not exist."""
        ...

    async def list(self, prefix: str) -> Keys:
        """Return the keys in the folder `prefix` and below, sorted; "" is the whole store."""
        ...

    async def delete(self, key: str) -> None:
        """Delete the key; a missing key is not an error."""
        ...

    def locate(self, key: str) -> str:
        """Return where the key's file is, for a person."""
        ...

    def build_link(self, key: str, expires_s: float, /) -> str | None:
        """Build a public URL that is valid for a while; None if the store has no URLs.

        Without one, the server reads the file and sends it itself.
        """
        ...

    async def identify(self, wanted: UUID | None) -> UUID | None:
        """Return the store's id. A store without one saves the wanted id, if given."""
        ...

    @property
    def place(self) -> str:
        """Where the store is, for a person."""
        ...

    @property
    def id_name(self) -> str:
        """The name of the file that holds the store's id, for a person."""
        ...


def open_store(url: str, access: BucketAccess | None = None) -> FileStore:
    """Open the store of a URL; `access` holds the credentials for a server."""
    # The URL may contain keys: messages only repeat its scheme.
    try:
        address = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(
            "DIALECTIC_STORAGE_URL is not a valid URL.",
            reason="not_an_address",
            subject="DIALECTIC_STORAGE_URL",
        ) from error
    if address.scheme == "file":
        return DiskStore(_parse_folder(address))
    if address.scheme == "s3":
        from dialectic.storage.s3 import ObjectStore  # only for a bucket

        return ObjectStore(parse_bucket(address, access or BucketAccess()))
    raise ConfigurationError(
        f"DIALECTIC_STORAGE_URL has the scheme {address.scheme[:20]!r}; use file, as in"
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
    """Check that the store belongs to this database, or raise; the first store found does.

    `belongs_together` says that both are in one home: an emptied store there is still the same
    store, and a store whose database was deleted belongs to the next database.
    """
    here = files.place
    rows = await db.fetch(SQL["find_storage"])
    if not rows:
        found = await files.identify(None)
        # If another process has just saved an id, the database has it already.
        rows = await db.fetch(SQL["find_storage"])
        if found is not None and not rows and not belongs_together:
            raise StorageMismatch(
                f"{here} holds the documents of another database, and this one has none yet. Set "
                "DIALECTIC_STORAGE_URL to a new place; if the other database is permanently gone, "
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
        f"{files.place}, which is {'another store' if found else 'not a store yet'}. Set "
        "DIALECTIC_STORAGE_URL to the same shared place everywhere; if the documents were "
        f"moved there, also move their file `{files.id_name}` (it holds {known})."
    )
