"""An address opens the store it names, or says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from dialectic.errors import ConfigurationError
from dialectic.storage.file_store import FileStore, open_store
from tests.cases import each_case
from tests.problems import refusing
from tests.unit.storage.folder_listing import KEY


async def test_an_address_opens_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "with space #1"
    store: FileStore = open_store(f"file://{tmp_path}/with%20space%20%231")
    await store.write(KEY, b"x")
    assert (folder / KEY).read_bytes() == b"x"
    assert store.locate(KEY) == str(folder / KEY)
    assert await open_store(f"file://localhost{tmp_path}/with%20space%20%231").read(KEY) == b"x"


@each_case("url", ["s3://key:secret@bucket/x", "", "/var/lib", "http://[", "C:\\x"])
def test_an_address_of_another_kind_is_refused_without_repeating_its_secrets(url: str) -> None:
    with refusing(ConfigurationError, "DIALECTIC_STORAGE_URL") as caught:
        open_store(url)
    assert "secret" not in caught.value.message


@each_case(
    "url",
    [
        "file://relative/path",
        "file:relative",
        "file:///a?b",
        "file:///a#b",
        "file:///a%00",
        "file://",
    ],
)
def test_an_address_of_a_folder_is_absolute_and_nothing_else(url: str) -> None:
    with refusing(ConfigurationError, reason="not_a_folder", subject="DIALECTIC_STORAGE_URL"):
        open_store(url)


def test_the_refusal_says_which_addresses_are_known() -> None:
    with refusing(ConfigurationError, "'ftp'", "file://", "s3://", reason="unknown_scheme"):
        open_store("ftp://host/x")
