"""Whose a file in a work folder is, and what becomes of a new version of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.plan_files import (
    Settlement,
    decide_settlement,
    is_work_path,
    name_entries,
    name_first,
    name_successor,
)
from dialectic.core.transfer.bundle_format import check_names
from tests.cases import each_case

hashes = st.sampled_from(["a", "b", "c"])


@each_case(
    ("found", "earlier", "is_withdrawn", "wanted"),
    [
        (None, [], False, Settlement.WRITE),
        ("new", [], False, Settlement.DONE),
        ("old", ["old"], False, Settlement.WRITE),
        ("ticked", ["old"], False, Settlement.WRITE_SUCCESSOR),
        ("theirs", [], False, Settlement.WRITE_SUCCESSOR),
        (None, ["old"], False, Settlement.WRITE_SUCCESSOR),
        ("new", [], True, Settlement.DELETE),
        ("old", ["old"], True, Settlement.DELETE),
        ("ticked", ["old"], True, Settlement.KEEP),
        (None, ["old"], True, Settlement.FORGET),
    ],
)
def test_only_a_file_that_is_as_we_wrote_it_is_replaced_or_deleted(
    found: str | None, earlier: list[str], is_withdrawn: bool, wanted: Settlement
) -> None:
    made = decide_settlement(found, new="new", earlier=earlier, is_withdrawn=is_withdrawn)
    assert made is wanted


@given(found=st.none() | hashes, new=hashes, earlier=st.lists(hashes), is_withdrawn=st.booleans())
def test_bytes_that_we_did_not_write_are_never_touched(
    found: str | None, new: str, earlier: list[str], is_withdrawn: bool
) -> None:
    made = decide_settlement(found, new=new, earlier=earlier, is_withdrawn=is_withdrawn)
    if found is not None and found not in (new, *earlier):
        assert made in (Settlement.WRITE_SUCCESSOR, Settlement.KEEP)


@each_case(
    ("path", "is_work"),
    [
        ("hall/Pending/01-dig.md", True),
        ("hall/Complete/a/b.txt", True),
        ("hall/Pending", False),
        ("hall/pending/01.md", False),
        ("hall/session_00000001/Pending/01.md", False),
    ],
)
def test_the_work_folders_are_directly_in_the_project(path: str, is_work: bool) -> None:
    assert is_work_path(path) is is_work


def test_a_new_version_has_the_next_free_number() -> None:
    taken = {"hall/Pending/01-dig-v2.md"}
    assert name_successor("hall/Pending/01-dig.md", set()) == "hall/Pending/01-dig-v2.md"
    assert name_successor("hall/Pending/01-dig.md", taken) == "hall/Pending/01-dig-v3.md"
    assert name_successor("hall/Pending/01-dig-v2.md", taken) == "hall/Pending/01-dig-v3.md"


def test_every_version_knows_the_name_of_the_first() -> None:
    assert name_first("hall/Pending/01-dig.md", ["other"]) == "Pending/01-dig.md"
    notes = ["other", "replaces:Pending/01-dig.md"]
    assert name_first("hall/Pending/01-dig-v3.md", notes) == "Pending/01-dig.md"


characters = st.characters(exclude_characters="/\\", exclude_categories=["Cs", "Cc"])
names = st.text(characters, min_size=1, max_size=60).filter(lambda name: name.strip("."))
paths = names.map(lambda name: f"h/Pending/{name}")


@given(st.sets(paths, max_size=8))
def test_every_name_that_a_person_gives_can_be_exported_and_imported(paths: set[str]) -> None:
    entries = name_entries(paths)
    assert entries.keys() == paths
    check_names(list(entries.values()))


def test_a_name_changes_in_an_archive_only_if_it_must() -> None:
    paths = [
        "h/Pending/Notes.md",
        "h/Pending/a b (1).md",
        "h/Pending/notes.md",
        "h/Pending/x\u202ey",
    ]
    assert list(name_entries(paths).values()) == [
        "h/Pending/Notes.md",
        "h/Pending/a b (1).md",
        "h/Pending/notes-2.md",
        "h/Pending/x_y",
    ]
