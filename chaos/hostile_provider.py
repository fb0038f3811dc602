"""A model server that means harm: `python -m chaos.hostile_provider` prints its port and serves.

The path names the attack: `/ATTACK/v1/chat/completions`. Each costs the attacker little: packed
bytes are made once and sent again and again. Ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import zlib
from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
PACKED = b"Content-Encoding: gzip\r\n"
COMMENT = b": keep\n"
TEXT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
BLOCK_BYTES = 1 << 20
DEPTH = 200_000
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
DIGITS = 2_000_000


def pack(unit: bytes) -> tuple[bytes, bytes]:
    """Pack a unit that is repeated for ever: what comes first, and what is repeated after it."""
    packer = zlib.compressobj(9, wbits=31)
    block = unit * (BLOCK_BYTES // len(unit))
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush nothing refers back, so the same bytes may follow any number of times.
    return first, packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)


def repeat_packed(unit: bytes) -> Iterator[bytes]:
    first, again = pack(unit)
    yield HEAD + PACKED + b"\r\n" + first
    many = again * max(1, (64 << 10) // len(again))
    while True:
        yield many


def repeat_plain(unit: bytes, head: bytes = HEAD + b"\r\n") -> Iterator[bytes]:
    yield head
    many = unit * ((64 << 10) // len(unit))
    while True:
        yield many


def send_once(body: bytes) -> Iterator[bytes]:
    yield HEAD + b"\r\n" + body


ATTACKS = {
    "packed_comments": lambda: repeat_packed(COMMENT),
    "packed_texts": lambda: repeat_packed(TEXT),
    "packed_line": lambda: repeat_packed(b"a"),
    "packed_blank_lines": lambda: repeat_packed(b"\n"),
    "comments": lambda: repeat_plain(COMMENT),
    "texts": lambda: repeat_plain(TEXT),
    "line": lambda: repeat_plain(b"a"),
    "headers": lambda: repeat_plain(b"X-Filler: nothing\r\n", HEAD),
    "interim": lambda: repeat_plain(b"HTTP/1.1 100 Continue\r\n\r\n", b""),
    "deep": lambda: send_once(b"data: " + b"[" * DEPTH + b"]" * DEPTH + b"\n\n"),
    "digits": lambda: send_once(b'data: {"usage":{"prompt_tokens":' + b"9" * DIGITS + b"}}\n\n"),
}
CALM = "calm"
ANSWERS = {**ATTACKS, CALM: lambda: send_once(b"")}
"""One of them harmless: what an answer takes on this machine, at this moment."""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read one request, and send what its path asks for until the client has had enough."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head = await reader.readuntil(b"\r\n\r\n")
        # A connection that is closed with bytes unread is reset, and its last words are lost.
        if length := LENGTH.search(head):
            await reader.readexactly(int(length[1]))
        name = head.split(b" ", 2)[1].decode().split("/")[1]
        for part in ANSWERS[name]():
            writer.write(part)
            await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
