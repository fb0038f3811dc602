"""The storage port: what every store of files can do, and which one an address names.

A key is `{tenant}/{path}`. A store knows keys and bytes; it does not know what they mean.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit
from uuid import UUID

from dialectic.domain.bucket import Access, parse_bucket
from dialectic.errors import ConfigurationError
from dialectic.storage.disk import DiskStore
from dialectic.storage.keys import Keys
from dialectic.storage.objects import ObjectStore


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
        raise ConfigurationError("DIALECTIC_STORAGE_URL is not an address.") from error
    if address.scheme == "file":
        return DiskStore(_parse_folder(address))
    if address.scheme == "s3":
        return ObjectStore(parse_bucket(address, access or Access()))
    raise ConfigurationError(
        f"DIALECTIC_STORAGE_URL has the scheme {address.scheme[:20]!r}; known are: file, as in"
        " file:///var/lib/dialectic, and s3, as in s3://bucket/folder."
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
            " file:///var/lib/dialectic; write # as %23 and ? as %3F."
        )
    return Path(path)
