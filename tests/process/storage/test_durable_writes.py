"""What is written outlives a crash: a file is flushed before it takes its name, then its folder."""

from __future__ import annotations

from pathlib import Path

from tests.process.storage.system_calls import list_calls, needs_strace
from tests.unit.storage.folder_listing import KEY

REPLACE = """
import sys
from pathlib import Path
from dialectic.atomic_write import replacing
with replacing(Path(sys.argv[1]), durable=True) as file:
    file.write(b"new")
"""

WRITE_THRICE = """
import asyncio, sys
from pathlib import Path
from dialectic.storage.disk import DiskStore
root, key = Path(sys.argv[1]), sys.argv[2]
store = DiskStore(root)
async def main():
    await store.write(key, b"x")
    Path(sys.argv[3], "second").mkdir()
    await store.write(key, b"y")
    Path(sys.argv[3], "third").mkdir()
    await DiskStore(root).write(key, b"y")
asyncio.run(main())
"""


@needs_strace
def test_a_durable_file_is_flushed_before_it_takes_its_name_and_its_folder_afterwards(
    tmp_path: Path,
) -> None:
    out = tmp_path / "here" / "x.zip"
    out.parent.mkdir()
    calls = list_calls(REPLACE, tmp_path, str(out))

    inside = [call for call in calls if call[1].startswith(str(out.parent))]
    _, draft = inside[0]
    assert inside == [("fsync", draft), ("rename", draft, str(out)), ("fsync", str(out.parent))]
    assert draft != str(out)


@needs_strace
def test_a_write_flushes_the_file_its_folder_and_every_folder_above(
    root: Path, tmp_path: Path
) -> None:
    calls = list_calls(WRITE_THRICE, tmp_path, str(root), KEY, str(tmp_path))
    second, third = (calls.index(("mkdir", str(tmp_path / name))) for name in ("second", "third"))
    parts = (calls[:second], calls[second:third], calls[third:])
    first, again, by_another = (
        [path for name, path, *_ in part if name == "fsync"] for part in parts
    )
    file = root / KEY
    above = [str(path) for path in file.parents if path.is_relative_to(tmp_path)]

    assert set(above) <= set(first)
    (draft,) = set(first) - set(above)
    assert ("rename", draft, str(file)) in calls
    assert again == [draft, str(file.parent)]
    # Another writer may have made the folders, and not have flushed them.
    assert {path for path in above if Path(path).is_relative_to(root)} <= set(by_another)
