"""A writer that dies leaves one whole version, and nothing that lasts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from dialectic.storage.disk import DiskStore
from tests.unit.storage.folder_listing import KEY, all_files, names_in


def run_to_its_end(program: str, root: Path, key: str) -> int:
    return subprocess.run([sys.executable, "-c", program, str(root), key], check=False).returncode


def kill_after_lines(program: str, root: Path, key: str, lines: int) -> None:
    command = [sys.executable, "-c", program, str(root), key]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(lines):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)


# The kernel ends a process that writes more into a file than it may.
DIE_WHILE_WRITING = """
import asyncio, resource, signal, sys
from pathlib import Path
from dialectic.storage.disk import DiskStore
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
asyncio.run(DiskStore(Path(sys.argv[1])).write(sys.argv[2], b"half-way" * 1000))
"""


async def test_a_writer_that_dies_leaves_the_old_file_and_nothing_that_lasts(
    store: DiskStore, root: Path
) -> None:
    await store.write(KEY, b"old")
    assert run_to_its_end(DIE_WHILE_WRITING, root, KEY) == -signal.SIGXFSZ
    assert await store.read(KEY) == b"old"
    assert len(all_files(root)) == 2
    assert await store.list("") == [KEY]

    await store.write(KEY, b"old")
    assert all_files(root) == [KEY]


async def test_deleting_a_key_clears_what_a_dead_writer_left(store: DiskStore, root: Path) -> None:
    assert run_to_its_end(DIE_WHILE_WRITING, root, KEY) == -signal.SIGXFSZ
    assert await store.list("") == []
    await store.delete(KEY)
    assert names_in(root) == []


WRITE_FOREVER = """
import asyncio, sys
from pathlib import Path
from dialectic.storage.disk import DiskStore
async def main():
    store = DiskStore(Path(sys.argv[1]))
    while True:
        for letter in (b"a", b"b"):
            await store.write(sys.argv[2], letter * 3_000_000)
            print(letter, flush=True)
asyncio.run(main())
"""


async def test_a_killed_writer_leaves_one_whole_version(store: DiskStore, root: Path) -> None:
    for lines in range(1, 6):
        kill_after_lines(WRITE_FOREVER, root, KEY, lines)
        content = await store.read(KEY)
        assert content in (b"a" * 3_000_000, b"b" * 3_000_000)
        await store.write(KEY, b"recovered")
        assert all_files(root) == [KEY]
