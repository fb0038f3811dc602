"""Archives are written alike every time, and hostile ones are refused before a byte is used."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.transfer.bundle_format import FORMAT, LIMITS, RATIO_FREE_BYTES, VERSION, Limits
from dialectic.errors import DialecticError, InvalidBundle, UsageError
from dialectic.storage.archive import open_archive, write_archive
from tests.problems import refusing

PROMPT = "hall/the-prompt.md"
SEED = "hall/session_0123abcd/iteration_1/1_thesis/seed_prompt.md"
FILES = {PROMPT: b"Why?", SEED: b"Write."}


def build_manifest(files: dict[str, bytes], /, **changes: Any) -> bytes:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "contents": "all",
        "project": "hall",
        "files": [
            {"path": p, "size_bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()}
            for p, d in files.items()
        ],
    }
    return json.dumps({**content, **changes}).encode()


def build_zip(entries: Iterable[tuple[zipfile.ZipInfo | str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for info, data in entries:
            target.writestr(info, data)
    return buffer.getvalue()


def with_entry(
    name: str, data: bytes = b"x", change: Callable[[zipfile.ZipInfo], None] | None = None
) -> bytes:
    """A good archive with one entry more, which the manifest names as well."""
    # The library puts right what it is given, so the name is set afterwards.
    info = zipfile.ZipInfo("x")
    info.filename = info.orig_filename = name
    info.compress_type = zipfile.ZIP_DEFLATED
    if change:
        change(info)
    manifest = build_manifest({**FILES, name: data})
    return build_zip([*FILES.items(), (info, data), ("manifest.json", manifest)])


def with_manifest(manifest: bytes, files: dict[str, bytes] = FILES) -> bytes:
    return build_zip([*files.items(), ("manifest.json", manifest)])


def link(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFLNK | 0o777) << 16


def pipe(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFIFO | 0o600) << 16


def bzip(info: zipfile.ZipInfo) -> None:
    info.compress_type = zipfile.ZIP_BZIP2


def encrypt(data: bytes) -> bytes:
    """Set the flag of encryption in the directory's first entry."""
    at = data.index(b"PK\x01\x02") + 8
    return data[:at] + struct.pack("<H", 1) + data[at + 2 :]


def lie_about_size(data: bytes, size: int) -> bytes:
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<L", size) + data[at + 4 :]


GOOD = with_manifest(build_manifest(FILES))
NEXT = "hall/session_0123abcd/iteration_1/1_thesis/a_1_thesis.md"

HOSTILE = {
    "an absolute path": (with_entry("/etc/passwd"), "absolute"),
    "a path upwards": (with_entry("../../up.md"), "leads_out"),
    "a path up and down": (with_entry("hall/../../up.md"), "leads_out"),
    "a path up at the end": (with_entry("hall/.."), "leads_out"),
    "a drive letter": (with_entry("C:/windows.md"), "drive"),
    "a drive without a slash": (with_entry("c:up.md"), "drive"),
    "a backslash": (with_entry("hall\\..\\up.md"), "backslash"),
    "a network path": (with_entry("//server/share.md"), "absolute"),
    "an empty part": (with_entry("hall//a.md"), "not_plain"),
    "a dot": (with_entry("./hall/a.md"), "not_plain"),
    "a control character": (with_entry("hall/a\x1b[2J.md"), "not_printable"),
    "a name cut at a NUL": (with_entry("hall/a.md\0.exe"), "not_printable"),
    "a symbolic link": (with_entry("hall/link.md", b"/etc/passwd", link), "link"),
    "a named pipe": (with_entry("hall/pipe.md", b"", pipe), "not_a_file"),
    "an odd way of packing": (with_entry("hall/a.md", b"x", bzip), "other_packing"),
    "a folder with content": (with_entry("hall/folder/", b"x"), "full_folder"),
    "a name of no place": (with_entry("hall/run.sh"), "not_a_path"),
    "a Windows device": (with_entry("hall/con.md"), "not_a_path"),
    "another project's folder": (with_entry("other/a.md"), "other_folder"),
    "names that differ by case": (with_entry("hall/The-Prompt.md"), "twice_by_case"),
    "names that differ by composition": (
        build_zip([("hall/e\u0301.md", b""), ("hall/\u00e9.md", b"")]),
        "twice_by_case",
    ),
    "a file in a file's place": (with_entry(f"{PROMPT}/x.md"), "not_a_path"),
    "a bomb": (with_entry(NEXT, bytes(2 * RATIO_FREE_BYTES)), "swollen"),
    "encryption": (encrypt(GOOD), "encrypted"),
    "a size that is too small": (lie_about_size(GOOD, 2), "not_unpackable"),
    "a size that is too large": (lie_about_size(GOOD, 2**32 - 2), "file_too_large"),
    "no manifest": (build_zip(FILES.items()), "no_manifest"),
    "a manifest that is none": (with_manifest(b"[]"), "not_a_manifest"),
    "a manifest that is no JSON": (with_manifest(b"\xff{"), "not_a_manifest"),
    "a manifest without a floor": (with_manifest(b"[" * 200_000), "not_a_manifest"),
    "another format": (with_manifest(build_manifest(FILES, format="tar")), "not_a_manifest"),
    "a later version": (with_manifest(build_manifest(FILES, version=2)), "other_version"),
    "an earlier version": (with_manifest(build_manifest(FILES, version=0)), "other_version"),
    "a manifest of too many values": (
        with_manifest(build_manifest(FILES, files=[0] * 80_001)),
        "too_many_values",
    ),
    "an unknown field": (with_manifest(build_manifest(FILES, also="this")), "bad_form"),
    "a hash that is wrong": (
        with_manifest(build_manifest({**FILES, PROMPT: b"Who?"})),
        "damaged",
    ),
    "a size that is wrong": (
        with_manifest(build_manifest({**FILES, PROMPT: b"W"})),
        "too_many_bytes",
    ),
    "a file that is missing": (
        with_manifest(build_manifest({**FILES, NEXT: b""})),
        "missing_file",
    ),
    "a file that is not announced": (
        with_manifest(build_manifest({PROMPT: b"Why?"})),
        "unlisted_file",
    ),
    "a file announced twice": (
        with_manifest(
            build_manifest(
                FILES,
                files=json.loads(build_manifest(FILES))["files"] * 2,
            )
        ),
        "twice",
    ),
    "no zip at all": (b"Dear reader, " * 20, "not_a_zip"),
    "nothing": (b"", "not_a_zip"),
    "half of one": (GOOD[: len(GOOD) // 2], "not_a_zip"),
    "something behind the end": (GOOD + b"x", "not_a_zip"),
    "more entries than it says": (
        GOOD[:-22] + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, 10, 10, 0),
        "too_many_files",
    ),
    "a 64-bit directory": (
        GOOD[:-22] + b"PK\x06\x07" + bytes(16) + GOOD[-22:],
        "zip64",
    ),
}


def read_all(path: Path) -> None:
    with open_archive(path) as opened:
        opened.verify()


@pytest.mark.parametrize("case", HOSTILE, ids=str)
def test_a_hostile_archive_is_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    data, reason = HOSTILE[case]
    path = tmp_path / "hostile.zip"
    path.write_bytes(data)
    with refusing(InvalidBundle, reason=reason):
        read_all(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    path.write_bytes(build_zip([*FILES.items(), *FILES.items()]))
    with refusing(InvalidBundle, reason="twice"):
        read_all(path)


def test_the_good_archive_that_the_hostile_ones_are_made_from_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.zip"
    path.write_bytes(GOOD)
    with open_archive(path) as opened:
        assert {name: opened.read(name) for name in FILES} == FILES
        with refusing(InvalidBundle, reason="no_file", subject="hall/other.md"):
            opened.read("hall/other.md")


def test_entries_for_folders_as_other_tools_make_them_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "again.zip"
    folder = zipfile.ZipInfo("hall/")
    folder.external_attr = (stat.S_IFDIR | 0o755) << 16
    path.write_bytes(
        build_zip([(folder, b""), *FILES.items(), ("manifest.json", build_manifest(FILES))])
    )
    read_all(path)


@pytest.mark.parametrize(
    ("limits", "reason", "limit"),
    [
        (Limits(entries_max=1), "too_many_files", 1),
        (Limits(total_bytes_max=5), "too_many_bytes", 5),
        (Limits(entry_bytes_max=5), "file_too_large", None),
        (Limits(archive_bytes_max=100), "too_many_bytes", 100),
    ],
)
def test_more_than_an_archive_may_hold_is_refused(
    tmp_path: Path, limits: Limits, reason: str, limit: int | None
) -> None:
    path = tmp_path / "good.zip"
    path.write_bytes(GOOD)
    with refusing(InvalidBundle, reason=reason, limit=limit), open_archive(path, limits):
        pass


@given(st.data())
def test_a_damaged_archive_is_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(GOOD) - 1))
    byte = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "damaged.zip"
    path.write_bytes(GOOD[:at] + bytes([byte]) + GOOD[at + 1 :])
    try:
        with open_archive(path) as opened:
            assert {entry.path: opened.read(entry.path) for entry in opened.manifest.files} == FILES
    except DialecticError:
        pass


# -- writing ---------------------------------------------------------------------------------------


def write(path: Path, files: dict[str, bytes], limits: Limits = LIMITS) -> None:
    with write_archive(path, limits) as writer:
        for name, data in files.items():
            writer.add(name, data)
        writer.finish(contents="all", project="hall")


def test_the_same_files_make_the_same_bytes_and_are_read_back(tmp_path: Path) -> None:
    for name in ("1.zip", "2.zip"):
        write(tmp_path / name, FILES)
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()
    with open_archive(tmp_path / "1.zip") as opened:
        assert {name: opened.read(name) for name in FILES} == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.zip", "2.zip"]


def test_a_file_that_shrinks_like_a_bomb_is_stored_so_that_it_can_be_read_back(
    tmp_path: Path,
) -> None:
    files = {NEXT: b" " * (3 * RATIO_FREE_BYTES)}
    write(tmp_path / "blank.zip", files)
    read_all(tmp_path / "blank.zip")


def test_an_archive_replaces_another_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(b"the one before")

    def fail() -> None:
        with write_archive(path) as writer:
            writer.add(PROMPT, b"Why?")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == b"the one before"
    assert list(tmp_path.iterdir()) == [path]
    write(path, FILES)
    read_all(path)


@pytest.mark.parametrize(
    ("limits", "reason", "limit"),
    [
        (Limits(entries_max=1), "too_many_files", 1),
        (Limits(total_bytes_max=5), "too_many_bytes", 5),
        (Limits(entry_bytes_max=5), "file_too_large", 5),
        (Limits(archive_bytes_max=100), "too_many_bytes", 100),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, limits: Limits, reason: str, limit: int | None
) -> None:
    with refusing(InvalidBundle, reason=reason, limit=limit):
        write(tmp_path / "all.zip", FILES, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_or_read_is_named(tmp_path: Path) -> None:
    with refusing(UsageError, reason="unwritable", subject=str(tmp_path / "nowhere" / "all.zip")):
        write(tmp_path / "nowhere" / "all.zip", FILES)
    with refusing(UsageError, reason="unreadable", subject=str(tmp_path / "none.zip")):
        read_all(tmp_path / "none.zip")
    with refusing(UsageError, reason="not_a_file", subject=str(tmp_path)):
        read_all(tmp_path)
