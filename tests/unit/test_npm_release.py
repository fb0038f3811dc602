"""Releases of the registry are used only with the bytes that were pinned."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tools.npm_release import Release, Unavailable


def put_release(folder: Path) -> Release:
    """Put the archive of a package where npm would put it."""
    release = Release("@scope/name", "1.2.3", "")
    with tarfile.open(folder / release.file_name, "w:gz") as files:
        for name, body in (("lib/a.js", b"let a;"), ("lib/a.d.ts", b"declare let a;")):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(body)
            files.addfile(entry, io.BytesIO(body))
    digest = hashlib.sha512((folder / release.file_name).read_bytes()).digest()
    return replace(release, sha512=base64.b64encode(digest).decode())


def test_a_release_is_unpacked_once_without_the_folder_of_its_archive(tmp_path: Path) -> None:
    release = put_release(tmp_path)

    release.unpack(tmp_path, tmp_path / "types", ending=".d.ts")
    (tmp_path / release.file_name).unlink()
    release.unpack(tmp_path, tmp_path / "types", ending=".d.ts")

    files = [path for path in (tmp_path / "types").rglob("*") if path.is_file()]
    assert [path.relative_to(tmp_path).as_posix() for path in files] == ["types/lib/a.d.ts"]


def test_a_release_with_other_bytes_is_refused_and_not_kept(tmp_path: Path) -> None:
    release = put_release(tmp_path)
    with (tmp_path / release.file_name).open("ab") as archive:
        archive.write(b"more")

    with pytest.raises(Unavailable):
        release.unpack(tmp_path, tmp_path / "package")

    assert list(tmp_path.iterdir()) == []


def test_without_npm_a_release_that_is_not_there_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Unavailable):
        Release("name", "1.0.0", "").fetch(tmp_path / "cache")
