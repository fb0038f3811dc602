"""The storage port: what every store of files can do, and which one an address names.

A key is `{tenant}/{path}`. A store knows keys and bytes; it does not know what they mean.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote_to_bytes, urlsplit
from uuid import UUID

from dialectic.errors import ConfigurationError
from dialectic.storage.disk import DiskStore
from dialectic.storage.keys import Keys


class FileStore(Protocol):
    """Where files are kept. A cancelled call may still take effect, but only as a whole."""

    async def write(self, key: str, data: bytes) -> None:
        """Put the bytes under the key: all of them, durably, or none if it fails."""
        ...

    async def read(self, key: str) -> bytes:
        """Return the bytes under the key; `NotFound` if there are none."""
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


def open_store(url: str) -> FileStore:
    """Open the store an address names."""
    # The address may hold keys: only its scheme is ever repeated in a message.
    try:
        address = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError("DIALECTIC_STORAGE_URL is not an address.") from error
    if address.scheme != "file":
        message = (
            f"DIALECTIC_STORAGE_URL has the scheme {address.scheme[:20]!r}; known is: file,"
            " as in file:///var/lib/dialectic."
        )
        raise ConfigurationError(message)
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
    return DiskStore(Path(path))
