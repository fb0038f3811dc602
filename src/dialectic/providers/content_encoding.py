"""Unpacks a compressed response in small slices, so that no response can occupy the process.

We ask for uncompressed responses, but some servers and proxies compress anyway. Two megabytes of
gzip can hold two gigabytes: the output is produced slice by slice, and the reader stops at its
limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from dialectic.core.strict_json import MalformedJson

SLICE_BYTES = 16 << 10
Decode = Callable[[bytes], Iterator[bytes]]

_GZIP, _ZLIB, _RAW = 31, 15, -15


def build_decoder(content_encoding: str) -> Decode:
    """Build the function that unpacks each piece of a body. Unknown encodings are refused."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return _slice
        case "gzip" | "x-gzip":
            return _Inflater(_GZIP)
        case "deflate":
            return _Inflater(_ZLIB)
        case name:
            raise MalformedJson(f"the response is encoded as {name[:40]!r}, which is not supported")


def _slice(piece: bytes) -> Iterator[bytes]:
    for start in range(0, len(piece), SLICE_BYTES):
        yield piece[start : start + SLICE_BYTES]


class _Inflater:
    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._stream = zlib.decompressobj(window_bits)
        self._has_begun = False

    def __call__(self, piece: bytes) -> Iterator[bytes]:
        rest = piece
        while rest:
            part, rest = self._inflate(rest)
            if part:
                yield part

    def _inflate(self, piece: bytes) -> tuple[bytes, bytes]:
        try:
            part = self._stream.decompress(piece, SLICE_BYTES)
        except zlib.error as error:
            if self._window_bits != _ZLIB or self._has_begun:
                raise MalformedJson("the response cannot be decompressed") from error
            # Some servers send "deflate" without the header that belongs to it.
            self._window_bits = _RAW
            self._stream = zlib.decompressobj(_RAW)
            return self._inflate(piece)
        self._has_begun = True
        rest = self._stream.unconsumed_tail
        if self._stream.eof:
            # What follows is another member, or padding.
            rest = self._stream.unused_data.lstrip(b"\0")
            self._stream = zlib.decompressobj(self._window_bits)
        return part, rest
