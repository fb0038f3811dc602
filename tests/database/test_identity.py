"""A database and its storage know each other from the first start on, whatever dies or is late."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.engine import Engine
from dialectic.errors import StorageMismatch, StorageUnavailable
from dialectic.storage.disk import DiskStore
from dialectic.storage.file_store import FileStore, require_identity
from tests.database.job_table import AdminConnection
from tests.problems import refusing


@dataclass(slots=True)
class Fragile:
    """A store that fails, or whose process dies, when it is to take on an id."""

    inner: FileStore

    async def identify(self, wanted: UUID | None) -> UUID | None:
        if wanted is not None:
            raise StorageUnavailable("Gone.")
        return await self.inner.identify(None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "store")


async def require(files: Any, engine: Engine, *, belongs_together: bool = False) -> None:
    await require_identity(files, engine.db, belongs_together=belongs_together)


async def test_those_who_start_first_at_once_agree(
    engine: Engine, worker_engine: Engine, tmp_path: Path, admin: AdminConnection
) -> None:
    stores = [DiskStore(tmp_path / "store") for _ in range(6)]
    await asyncio.gather(*(require(store, engine) for store in stores))
    await require(stores[0], worker_engine)
    (row,) = await admin.fetch("select * from dialectic_storage")
    assert row["store_id"] == await stores[0].identify(None)
    assert row["place"] == stores[0].place


async def test_a_first_start_that_was_cut_short_is_finished_by_the_next(
    engine: Engine, store: DiskStore, tmp_path: Path
) -> None:
    with pytest.raises(StorageUnavailable):
        await require(Fragile(store), engine)
    assert await store.identify(None) is None
    with refusing(StorageMismatch, reason="no_store", subject="DIALECTIC_STORAGE_URL"):
        await require(DiskStore(tmp_path / "other"), engine)
    await require(store, engine)
    assert await store.identify(None) is not None
    await require(store, engine)


async def test_a_store_that_was_emptied_is_not_filled_again(
    engine: Engine, store: DiskStore, tmp_path: Path
) -> None:
    await require(store, engine)
    (tmp_path / "store" / store.id_name).unlink()
    with refusing(StorageMismatch, reason="no_store"):
        await require(store, engine)
    await require(store, engine, belongs_together=True)


async def test_the_store_of_another_database_is_refused(
    engine: Engine, store: DiskStore, admin: AdminConnection
) -> None:
    theirs = await store.identify(UUID(int=1))
    with refusing(StorageMismatch, reason="another_database"):
        await require(store, engine)
    assert await admin.fetch("select * from dialectic_storage") == []
    # In one home the documents of a database that was thrown away are no stranger's.
    await require(store, engine, belongs_together=True)
    assert await store.identify(None) == theirs
