"""No key leads outside the store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialectic.errors import UsageError
from dialectic.storage.disk import DiskStore
from tests.unit.storage.folder_listing import all_files

HOSTILE_KEYS = [
    "",
    "/",
    "tenant",
    "tenant/",
    "/tenant/x",
    "tenant//x",
    "tenant/./x",
    "tenant/../x",
    "../x/y",
    "tenant/x/..",
    "tenant/a\0b",
    "tenant\\x",
    "tenant/a\\b",
    "tenant/" + "x" * 256,
    "tenant/" + "é" * 128,
    "tenant/" + "x/" * 1_000 + "x",
    "tenant/\ud800",
    "tenant/.draft-0123",
    ".draft-x/y",
]
parts = st.one_of(
    st.sampled_from(
        ["..", ".", "", "a", "b", "~", "con", "a\\b", "\0", "é" * 128, ".draft-x", "-"]
    ),
    st.text(max_size=5),
)
keys = st.one_of(
    st.sampled_from(HOSTILE_KEYS), st.lists(parts, min_size=1, max_size=5).map("/".join)
)


@pytest.mark.parametrize("prefix", ["/", "..", "tenant/..", "a//b", "/etc", "tenant\\x", "a\0"])
async def test_a_folder_that_could_lead_astray_is_refused(store: DiskStore, prefix: str) -> None:
    with pytest.raises(UsageError):
        await store.list(prefix)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys)
def test_no_key_reaches_outside_the_store(tmp_path: Path, key: str) -> None:
    root = tmp_path / "store"
    store = DiskStore(root)

    async def write_and_read() -> None:
        await store.write(key, b"content")
        assert await store.read(key) == b"content"
        assert key in await store.list("")
        await store.delete(key)

    try:
        asyncio.run(write_and_read())
    except UsageError:
        return
    assert all_files(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
