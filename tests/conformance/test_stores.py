"""Every store of files keeps the same promises: one on a disk, and one on a real S3 server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import S3Store

from dialectic.errors import NotFound, StorageUnavailable, UsageError
from dialectic.storage.file_store import FileStore, open_store
from dialectic.storage.s3 import PART_BYTES
from tests.problems import refusing
from tests.s3_server import BUCKET, KEY_ID, WHOLE_BUCKET, S3Server, serving_objects
from tests.s3_server import KEY as SECRET
from tests.unit.storage.folder_listing import KEY
from tests.unit.storage.test_keys import HOSTILE_KEYS

Open = Callable[[], FileStore]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_objects(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.fixture(params=["disk", "s3"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server) -> Open:
    """Opens the same store again, as another process does."""
    if request.param == "disk":
        return lambda: open_store((tmp_path / "store").as_uri())
    url = f"s3://{BUCKET}/test_{next(_numbers)}/folder"
    return lambda: open_store(url, s3.access)


@pytest.fixture
def store(reopen: Open) -> FileStore:
    return reopen()


async def test_what_is_written_can_be_read_by_all(store: FileStore, reopen: Open) -> None:
    await store.write(KEY, b"bytes \x00\xff")
    assert await store.read(KEY) == b"bytes \x00\xff"
    assert await reopen().read(KEY) == b"bytes \x00\xff"
    assert store.locate(KEY).endswith(f"/{KEY}")


async def test_an_empty_file_is_a_file(store: FileStore) -> None:
    await store.write(KEY, b"")
    assert await store.read(KEY) == b""
    assert [part async for part in store.stream(KEY)] == []
    assert await store.list("") == [KEY]


async def test_other_bytes_replace_what_was_there_and_the_same_change_nothing(
    store: FileStore,
) -> None:
    await store.write(KEY, b"old and longer")
    for _ in range(2):
        await store.write(KEY, b"new")
        assert await store.read(KEY) == b"new"
        assert await store.list("") == [KEY]


async def test_a_file_that_is_not_there_is_not_found(store: FileStore) -> None:
    with refusing(NotFound, "seed_prompt", reason="no_file"):
        await store.read(KEY)
    await store.write(KEY, b"x")
    for key in ("tenant/garden/other.md", "tenant/garden"):
        with pytest.raises(NotFound):
            await store.read(key)
        with pytest.raises(NotFound):
            await anext(aiter(store.stream(key)))


async def test_a_store_in_which_nothing_is_is_empty(store: FileStore) -> None:
    assert await store.list("") == []
    assert await store.list("tenant") == []
    await store.delete(KEY)


async def test_a_folder_lists_what_is_in_it_and_not_what_only_begins_alike(
    store: FileStore,
) -> None:
    written = ["t/a/x.md", "t/a/deep/er/y.md", "t/a-b/z.md", "t/a.md", "t2/a/x.md"]
    for key in written:
        await store.write(key, b"x")
    assert await store.list("t/a") == ["t/a/deep/er/y.md", "t/a/x.md"]
    assert await store.list("t/a/") == ["t/a/deep/er/y.md", "t/a/x.md"]
    assert await store.list("t") == sorted(written[:4])
    assert await store.list("") == sorted(written)


async def test_deleting_twice_is_deleting_once(store: FileStore) -> None:
    await store.write(KEY, b"x")
    await store.delete(KEY)
    await store.delete(KEY)
    assert await store.list("") == []
    with pytest.raises(NotFound):
        await store.read(KEY)


async def test_a_large_file_arrives_whole_and_can_be_read_in_parts(
    store: FileStore, tmp_path: Path
) -> None:
    data = bytes(range(256)) * ((2 * PART_BYTES + 1024) // 256)
    await store.write(KEY, data)
    assert await store.read(KEY) == data
    (tmp_path / "large").write_bytes(data[::-1])
    for _ in range(2):
        await store.write_file(KEY, tmp_path / "large")
        assert await store.read(KEY) == data[::-1]
    await store.write(KEY, data)
    parts = [part async for part in store.stream(KEY)]
    assert len(parts) > 1
    assert b"".join(parts) == data


async def test_writers_of_one_file_leave_what_one_of_them_wrote(reopen: Open) -> None:
    texts = [f"{number}".encode() * 10_000 for number in range(6)]
    await asyncio.gather(*(reopen().write(KEY, text) for text in texts))
    assert await reopen().read(KEY) in texts


@pytest.mark.parametrize("key", HOSTILE_KEYS)
async def test_a_key_that_could_lead_astray_is_refused(store: FileStore, key: str) -> None:
    for call in (store.write(key, b"x"), store.read(key), store.delete(key)):
        with refusing(UsageError, reason="bad_key", subject=key):
            await call
    for say in (store.locate, lambda name: store.build_link(name, 60)):
        with refusing(UsageError, reason="bad_key", subject=key):
            say(key)


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(names, min_size=2, max_size=4).map("/".join))
def test_whatever_a_key_is_spelled_with_it_comes_back_the_same(reopen: Open, key: str) -> None:
    async def keep() -> None:
        store = reopen()
        try:
            await store.write(key, b"content")
        except UsageError:
            return
        assert await store.read(key) == b"content"
        assert await store.list("") == [key]
        await store.delete(key)
        assert await store.list("") == []

    asyncio.run(keep())


# -- identity --------------------------------------------------------------------------------------


async def test_a_store_takes_on_the_first_id_and_keeps_it(store: FileStore, reopen: Open) -> None:
    assert await store.identify(None) is None
    first = uuid4()
    assert await store.identify(first) == first
    assert await store.identify(uuid4()) == first
    assert await reopen().identify(None) == first
    assert await store.list("") == [], "its id is no document"


async def test_those_who_propose_the_same_id_at_once_agree(reopen: Open) -> None:
    wanted = uuid4()
    found = await asyncio.gather(*(reopen().identify(wanted) for _ in range(6)))
    assert set(found) == {wanted}


# -- what only a server does -----------------------------------------------------------------------


async def test_objects_lie_in_the_bucket_under_their_keys_with_their_kind(s3: S3Server) -> None:
    store = open_store(f"s3://{BUCKET}/plain", s3.access)
    await store.write(KEY, b"words")
    assert (s3.bucket / "plain" / KEY).read_bytes() == b"words"
    assert store.locate(KEY) == f"s3://{BUCKET}/plain/{KEY}"
    assert store.place == f"s3://{BUCKET}/plain at {s3.endpoint}"


async def test_a_whole_bucket_may_be_a_store(s3: S3Server) -> None:
    store = open_store(f"s3://{WHOLE_BUCKET}", s3.access)
    await store.write(KEY, b"words")
    assert (s3.folder / WHOLE_BUCKET / KEY).read_bytes() == b"words"
    assert await store.list("tenant") == [KEY]


async def test_what_else_lies_in_a_bucket_is_none_of_ours(s3: S3Server) -> None:
    store = open_store(f"s3://{BUCKET}/shared", s3.access)
    await store.write(KEY, b"words")
    others = S3Store(
        BUCKET,
        config={"endpoint": s3.endpoint, "access_key_id": KEY_ID, "secret_access_key": SECRET},
        client_options={"allow_http": True},
    )
    for name in ("note.txt", "tenant/.draft-0123", "tenant/a\\b"):
        await others.put_async(f"shared/{name}", b"x")
    assert await store.list("") == [KEY]
    assert len(await others.list("shared").collect_async()) == 4


async def test_anyone_reads_a_document_by_its_link_for_a_while(s3: S3Server) -> None:
    store = open_store(f"s3://{BUCKET}/linked", s3.access)
    await store.write(KEY, b"words")
    link = store.build_link(KEY, 60)
    assert link is not None
    async with httpx2.AsyncClient() as client:
        answer = await client.get(link)
        assert (answer.status_code, answer.content) == (200, b"words")
        assert answer.headers["content-type"].startswith("text/markdown")
        for forged in (link.replace("seed_prompt", "other"), link.partition("?")[0]):
            assert (await client.get(forged)).status_code in (400, 403)


async def test_a_disk_has_no_links(tmp_path: Path) -> None:
    assert open_store(tmp_path.as_uri()).build_link(KEY, 60) is None


async def test_an_id_that_is_none_is_said_with_its_place(s3: S3Server) -> None:
    store = open_store(f"s3://{BUCKET}/spoilt", s3.access)
    assert isinstance(await store.identify(uuid4()), UUID)
    await open_store(f"s3://{BUCKET}", s3.access).write(f"spoilt/{store.id_name}", b"what?")
    with refusing(StorageUnavailable, f"s3://{BUCKET}/spoilt/store-id", reason="no_id"):
        await store.identify(None)
