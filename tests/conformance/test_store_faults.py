"""A store of objects that refuses or fails says what to do, soon, and shows no key."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from dialectic.core.access import Secret
from dialectic.core.bucket import BucketAccess, parse_bucket
from dialectic.errors import ConfigurationError, StorageUnavailable
from dialectic.storage.file_store import FileStore, open_store
from dialectic.storage.s3 import PART_BYTES, ObjectStore, RetryPolicy
from tests.problems import refusing
from tests.s3_server import BUCKET, KEY, KEY_ID, S3Server, serving_objects

DOCUMENT = "tenant/garden/x.md"
CALLS: dict[str, Callable[[FileStore], Awaitable[object]]] = {
    "write": lambda store: store.write(DOCUMENT, b"x"),
    "read": lambda store: store.read(DOCUMENT),
    "list": lambda store: store.list(""),
    "delete": lambda store: store.delete(DOCUMENT),
    "identify": lambda store: store.identify(uuid4()),
}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_objects(tmp_path_factory.mktemp("objects")) as server:
        yield server


async def refuse(store: FileStore, *parts: str) -> None:
    """See that every call is refused with these words, and nothing that is secret."""
    for name, call in CALLS.items():
        with pytest.raises(StorageUnavailable) as caught:
            await call(store)
        for part in parts:
            assert part in caught.value.message, name
        assert f"s3://{BUCKET}" in caught.value.message or "elsewhere" in caught.value.message
        shown = "".join(traceback.format_exception(caught.value))
        assert KEY not in shown
        assert KEY_ID not in shown


async def test_a_bucket_that_is_not_there_is_said_by_every_call(s3: S3Server) -> None:
    store = open_store("s3://elsewhere/folder", s3.access)
    await refuse(store, "NoSuchBucket", "Create the bucket, or correct DIALECTIC_STORAGE_URL")


async def test_a_wrong_key_is_said_by_every_call(s3: S3Server) -> None:
    for access in (
        replace(s3.access, key=Secret("something else")),
        replace(s3.access, key_id=Secret("somebody-else")),
    ):
        await refuse(open_store(f"s3://{BUCKET}", access), "DIALECTIC_STORAGE_SECRET_ACCESS_KEY")


async def test_a_server_that_is_gone_is_said_and_found_again(tmp_path: Path) -> None:
    with serving_objects(tmp_path) as server:
        store = open_store(f"s3://{BUCKET}/folder", server.access)
        await store.write(DOCUMENT, b"before")
        server.stop()
        await refuse(store, server.endpoint, "DIALECTIC_STORAGE_ENDPOINT")
        server.start()
        assert await store.read(DOCUMENT) == b"before"
        await store.write(DOCUMENT, b"after")
        assert await store.read(DOCUMENT) == b"after"


@dataclass(slots=True)
class Oddity:
    """A server that says what it is told to, the last of it for ever; b"" is to say nothing."""

    answers: list[bytes]
    port: int = 0
    asked: list[bytes] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError), closing(writer):
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        await reader.readexactly(int(length[1]) if length else 0)
        self.asked.append(head)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer:
            writer.write(answer)
            await writer.drain()
        else:
            await reader.read()  # until the other side has had enough

    @property
    def access(self) -> BucketAccess:
        return BucketAccess(
            endpoint=f"http://127.0.0.1:{self.port}",
            allows_http=True,
            key_id=Secret(KEY_ID),
            key=Secret(KEY),
        )

    @property
    def store(self) -> FileStore:
        return open_store(f"s3://{BUCKET}", self.access)


@asynccontextmanager
async def opening(*answers: bytes) -> AsyncIterator[Oddity]:
    oddity = Oddity(list(answers))
    talks: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.append((asyncio.create_task(oddity.talk(reader, writer)), writer))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    oddity.port = server.sockets[0].getsockname()[1]
    async with server:
        yield oddity
    # A client may keep a connection for later; every one is closed before the loop is.
    for talk, _ in talks:
        talk.cancel()
    await asyncio.gather(*(talk for talk, _ in talks), return_exceptions=True)
    await asyncio.gather(*(writer.wait_closed() for _, writer in talks), return_exceptions=True)


def build_answer(status: int, code: str = "", body: bytes = b"") -> bytes:
    if code:
        body = f"<Error><Code>{code}</Code><Key>{KEY_ID}</Key></Error>".encode()
    head = f"HTTP/1.1 {status} Odd\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
    about = 'etag: "x"\r\nlast-modified: Mon, 16 Nov 2026 10:00:00 GMT\r\n\r\n'
    return (head + about).encode() + body


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (build_answer(403, "AccessDenied"), "AccessDenied"),
        (build_answer(403), "DIALECTIC_STORAGE_SECRET_ACCESS_KEY"),
        (build_answer(400, "AuthorizationHeaderMalformed"), "DIALECTIC_STORAGE_REGION"),
        (build_answer(403, "RequestTimeTooSkewed"), "clock"),
        (build_answer(400, "ExpiredToken"), "DIALECTIC_STORAGE_SESSION_TOKEN"),
        (build_answer(400, "SomethingNew"), "SomethingNew"),
        (build_answer(503, "SlowDown"), "SlowDown"),
        (build_answer(500), "status 500"),
        (build_answer(507, "XMinioStorageFull"), "XMinioStorageFull"),
        (b"HTTP/1.1 200", "does not answer"),
    ],
)
async def test_what_a_server_answers_is_put_into_words(answer: bytes, words: str) -> None:
    async with opening(answer) as oddity:
        await refuse(oddity.store, words)
        assert len(oddity.asked) <= 2 * len(CALLS), "a second try at most"


async def test_half_a_file_is_not_a_file() -> None:
    half = build_answer(200, body=b"x" * 100)[:-50]
    async with opening(half) as oddity:
        with refusing(StorageUnavailable, "DIALECTIC_STORAGE_ENDPOINT", reason="refused"):
            await oddity.store.read(DOCUMENT)
        with refusing(StorageUnavailable, "DIALECTIC_STORAGE_ENDPOINT", reason="refused"):
            [part async for part in oddity.store.stream(DOCUMENT)]


BEGUN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
JOINED = b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
FAILED = b"<Error><Code>InternalError</Code></Error>"


@pytest.mark.parametrize("last", [JOINED, FAILED])
async def test_parts_that_were_not_joined_are_not_taken_for_a_file(last: bytes) -> None:
    """The protocol says so with status 200: it had begun to answer before it failed."""
    parts = [build_answer(200)] * 2
    large = b"x" * (PART_BYTES + 1)
    async with opening(
        build_answer(200, body=BEGUN), *parts, build_answer(200, body=last)
    ) as oddity:
        if last == JOINED:
            await oddity.store.write(DOCUMENT, large)
        else:
            with pytest.raises(StorageUnavailable):
                await oddity.store.write(DOCUMENT, large)
        assert oddity.asked[3].startswith(b"POST ")


async def test_of_two_who_name_a_store_at_once_the_second_learns_the_name_of_the_first() -> None:
    theirs = uuid4()
    async with opening(
        build_answer(404, "NoSuchKey"),
        build_answer(412, "PreconditionFailed"),
        build_answer(200, body=f"{theirs}\n".encode()),
    ) as oddity:
        assert await oddity.store.identify(uuid4()) == theirs
        assert b"if-none-match: *" in oddity.asked[1].lower()


async def test_a_server_that_refuses_conditions_is_named_without_them() -> None:
    ours = uuid4()
    async with opening(
        build_answer(404, "NoSuchKey"),
        *[build_answer(501, "NotImplemented")] * 2,
        build_answer(200),
        build_answer(200, body=f"{ours}\n".encode()),
    ) as oddity:
        assert await oddity.store.identify(ours) == ours
        conditions = [b"if-none-match" in asked.lower() for asked in oddity.asked]
        assert conditions == [False, True, True, False, False]


async def test_a_server_that_never_answers_is_not_waited_for() -> None:
    patience = RetryPolicy(
        silence_max=timedelta(milliseconds=200), retry_within=timedelta(milliseconds=100)
    )
    async with opening(b"") as oddity:
        bucket = parse_bucket(urlsplit(f"s3://{BUCKET}"), oddity.access)
        async with asyncio.timeout(10):
            await refuse(ObjectStore(bucket, patience), "did not answer in time")
        assert len(oddity.asked) == len(CALLS), "no second try for what took its time"


async def test_variables_of_other_programs_lead_nowhere_else(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "of-another",
        "AWS_SECRET_ACCESS_KEY": "of-another",
        "AWS_SESSION_TOKEN": "of-another",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    }.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://{BUCKET}/ours", s3.access)
    await store.write(DOCUMENT, b"x")
    assert (s3.bucket / "ours" / DOCUMENT).read_bytes() == b"x"
    async with opening(build_answer(200)) as oddity:
        await oddity.store.write(DOCUMENT, b"x")
        assert b"of-another" not in oddity.asked[0]
        assert oddity.asked[0].startswith(f"PUT /{BUCKET}/{DOCUMENT} ".encode())


async def test_a_passing_token_goes_along(s3: S3Server) -> None:
    async with opening(build_answer(200)) as oddity:
        access = replace(
            s3.access,
            endpoint=f"http://127.0.0.1:{oddity.port}",
            session_token=Secret("for-an-hour"),
        )
        await open_store(f"s3://{BUCKET}", access).write(DOCUMENT, b"x")
        assert b"x-amz-security-token: for-an-hour" in oddity.asked[0].lower()


async def test_a_name_that_is_too_long_for_the_protocol_is_said(s3: S3Server) -> None:
    store = open_store(f"s3://{BUCKET}/{'f' * 190}", s3.access)
    with refusing(StorageUnavailable, "DIALECTIC_STORAGE_URL", reason="name_too_long"):
        await store.write("/".join(["t", *["d" * 200] * 4, "x" * 50]), b"x")


def test_a_bucket_without_a_key_is_refused() -> None:
    with refusing(ConfigurationError, reason="no_key", subject="DIALECTIC_STORAGE_ACCESS_KEY_ID"):
        open_store(f"s3://{BUCKET}")
