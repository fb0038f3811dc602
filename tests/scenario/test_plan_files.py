"""A person's files are theirs: in the work folders of storage, in a copy, in an export."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dialectic.cli.copies import MANIFEST_NAME
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.errors import ExitCode
from dialectic.postgres import embedded
from tests.command_pool import CommandResult
from tests.properties import PROFILE, SHARE
from tests.s3_server import serving_objects
from tests.scenario.test_run import Home, copy_home, read_tree
from tests.scenario.test_s3 import make_database

EDITS = 200 // SHARE[PROFILE]
# Commands between two edits of the person.
EDITS_AT_ONCE = 5
FOLDERS = ("Pending", "Current", "Complete")
PROCESS = """
name = "plan-only"
title = "A plan"
description = "One stage that ends in a checklist."
starting_stage = "plan"
domains = ["General"]

[[stages]]
slug = "plan"
display_name = "Plan"
description = "Each model writes a checklist."
system_prompt_name = "role"
prompt_template_name = "plan"
output_type = "plan"

[[stages.expected_output_artifacts]]
key = "checklist"
title = "Checklist"
heading = "## Checklist"
fills_pending = true
"""
DRAFT = """
[[stages]]
slug = "draft"
display_name = "Draft"
description = "Each model writes a draft."
system_prompt_name = "role"
prompt_template_name = "draft"
output_type = "draft"

[[transitions]]
source = "draft"
target = "plan"
"""
PLAN = """Plan the request. Domain: {{ domain }}.

{{ request }}
{% for block in context %}{{ block }}{% endfor %}
{% for block in feedback %}{{ block }}{% endfor %}
{% for block in inputs %}{{ block }}{% endfor %}
{% if guidance %}{{ guidance }}{% endif %}

Write markdown with exactly these sections, under these headings:

- `## Checklist`: steps, each one `### ` heading.
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A process of one stage whose answer is the plan."""
    folder = tmp_path_factory.mktemp("process") / "plan-only"
    (folder / "prompts").mkdir(parents=True)
    (folder / "process.toml").write_text(PROCESS)
    (folder / "prompts/role.md").write_text("You plan.\n")
    (folder / "prompts/plan.md").write_text(PLAN)
    return folder


@pytest.fixture
def home(made_home: Path, tmp_path: Path) -> Iterator[Home]:
    with copy_home(made_home, tmp_path / "home") as opened:
        yield opened


@pytest.fixture(scope="module")
def staged_process(process: Path) -> Path:
    """The same process with a stage before the plan, so that a session can wait between two."""
    folder = shutil.copytree(process, process.with_name("draft-and-plan"))
    head, plan = PROCESS.replace("plan-only", "draft-and-plan").split("[[stages]]", 1)
    head = head.replace('starting_stage = "plan"', 'starting_stage = "draft"')
    (folder / "process.toml").write_text(f"{head}{DRAFT}\n[[stages]]{plan}")
    (folder / "prompts/draft.md").write_text(PLAN.partition("Write markdown")[0])
    return folder


def build_checklist(*steps: str) -> str:
    return "## Checklist\n\n" + "\n".join(f"### {step}\n\n- [ ] Do {step}.\n" for step in steps)


@dataclass(slots=True)
class Planned:
    """A project whose plan was written, with a copy."""

    home: Home
    out: Path
    scratch: Path
    session: str
    slug: str = "hall"
    # What the person made in each folder: their bytes by path.
    theirs: dict[Path, bytes] = field(default_factory=dict)

    @property
    def stored(self) -> Path:
        (tenant,) = (path for path in (self.home.path / "storage").iterdir() if path.is_dir())
        return tenant / self.slug

    @property
    def copied(self) -> Path:
        return self.out / self.slug

    def tell(self, *words: str) -> CommandResult:
        result = self.home.tell(*words)
        assert result.code == 0, (words, result.stdout, result.stderr)
        return result

    def find_document(self) -> str:
        """Find the newest version of the lead's plan."""
        rows = json.loads(self.tell("list", self.session, "--json").stdout)
        plans = [row for row in rows if row["contribution_type"] == "plan"]
        return str(max(plans, key=lambda row: row["iteration_number"])["id"])

    def edit(self, *steps: str) -> CommandResult:
        """Replace the lead's checklist."""
        file = self.scratch / "checklist.md"
        file.write_text(build_checklist(*steps))
        return self.tell("edit", self.find_document(), "--file", str(file))

    def read_work(self, top: Path) -> dict[str, bytes]:
        return {path: data for path, data in read_tree(top).items() if path.startswith(FOLDERS)}

    def read_readme(self) -> str:
        return (self.stored / "project_readme.md").read_text()


def begin(home: Home, process: Path, folder: Path, *options: str) -> Planned:
    out = folder / "out"
    run = home.tell(
        *("run", "--process", str(process), "--models", "offline/skeptic", "--name", "hall"),
        *("--out", str(out), *options, "A village hall."),
    )
    assert run.code == (ExitCode.WAITING if "--pause" in options else ExitCode.DONE), run.stderr
    return Planned(home, out, folder, run.session)


@pytest.fixture
def planned(home: Home, process: Path, tmp_path: Path) -> Planned:
    made = begin(home, process, tmp_path)
    made.edit("Dig", "Build", "Open")
    return made


@pytest.fixture
def staged(home: Home, staged_process: Path, tmp_path: Path) -> Planned:
    """A project whose session waits for the person after each stage."""
    made = begin(home, staged_process, tmp_path, "--pause")
    made.tell("next", made.session)
    made.edit("Dig", "Build", "Open")
    return made


def test_all_three_folders_exist_everywhere(planned: Planned) -> None:
    names = {"Pending/01-dig.md", "Pending/02-build.md", "Pending/03-open.md"}
    names |= {"Current/README.md", "Complete/README.md"}
    assert planned.read_work(planned.stored).keys() == names
    assert planned.read_work(planned.copied).keys() == names


def test_a_ticked_and_a_moved_file_stay_as_they_are_in_storage_and_in_an_export(
    planned: Planned, made_home: Path, tmp_path: Path
) -> None:
    stored = planned.stored
    (stored / "Pending/01-dig.md").write_text("# Dig\n\n- [x] Do Dig.\n")
    (stored / "Pending/02-build.md").rename(stored / "Current/02-build.md")
    (stored / "Pending/03-open.md").unlink()
    (stored / "Complete/Meine Notizen").mkdir()
    (stored / "Complete/Meine Notizen/Größe.bin").write_bytes(b"\xff\x00\xfe")
    theirs = planned.read_work(stored)
    planned.tell("resume", planned.session)
    planned.tell("export", "hall", "--finished", "--out", str(tmp_path / "finished.zip"))
    planned.tell("export", "hall", "--out", str(tmp_path / "hall.zip"))
    assert planned.read_work(stored) == theirs
    with copy_home(made_home, tmp_path / "other") as other:
        taken = other.tell("import", str(tmp_path / "hall.zip"))
        assert taken.code == 0, taken.stderr
        there = Planned(other, planned.out, tmp_path, taken.session)
        assert there.read_work(there.stored) == theirs
        there.tell("export", "hall", "--out", str(tmp_path / "again.zip"))
        assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "hall.zip").read_bytes()
        there.edit("Dig deeper", "Build", "Open")
        kept = there.read_work(there.stored)
        assert theirs.items() <= kept.items()


def test_a_changed_plan_replaces_untouched_files_and_is_written_next_to_touched_ones(
    planned: Planned,
) -> None:
    stored = planned.stored
    ticked = b"# Dig\n\n- [x] Do Dig.\n"
    (stored / "Pending/01-dig.md").write_bytes(ticked)
    text = build_checklist("Dig", "Build", "Open").replace("Do ", "Now do ")
    file = planned.scratch / "checklist.md"
    file.write_text(text)
    said = planned.tell("edit", planned.find_document(), "--file", str(file)).stderr
    assert "Pending/01-dig.md: its new version is Pending/01-dig-v2.md." in said
    work = planned.read_work(stored)
    assert work["Pending/01-dig.md"] == ticked
    assert work["Pending/01-dig-v2.md"] == b"# Dig\n\n- [ ] Now do Dig.\n"
    assert work["Pending/02-build.md"] == b"# Build\n\n- [ ] Now do Build.\n"
    planned.tell("resume", planned.session)
    readme = planned.read_readme()
    assert "[01-dig-v2.md](Pending/01-dig-v2.md) (the new version of Pending/01-dig.md" in readme


def test_a_third_version_replaces_an_untouched_second_one(planned: Planned) -> None:
    (planned.stored / "Pending/01-dig.md").write_text("mine")
    for words in ("Now", "Soon"):
        text = build_checklist("Dig").replace("Do ", f"{words} do ")
        (planned.scratch / "checklist.md").write_text(text)
        file = str(planned.scratch / "checklist.md")
        planned.tell("edit", planned.find_document(), "--file", file)
    work = planned.read_work(planned.stored)
    pending = {path: data for path, data in work.items() if path.startswith("Pending")}
    assert pending == {
        "Pending/01-dig.md": b"mine",
        "Pending/01-dig-v2.md": b"# Dig\n\n- [ ] Soon do Dig.\n",
    }


def test_steps_that_a_plan_drops_are_withdrawn_unless_they_were_touched(planned: Planned) -> None:
    (planned.stored / "Pending/02-build.md").write_text("- [x] Built.\n")
    planned.edit("Dig")
    work = planned.read_work(planned.stored)
    assert "Pending/03-open.md" not in work
    assert work["Pending/02-build.md"] == b"- [x] Built.\n"
    planned.tell("resume", planned.session)
    superseded = planned.read_readme().split("## Superseded plan")[1]
    assert "[02-build.md](Pending/02-build.md)" in superseded


def test_the_plan_of_an_earlier_iteration_is_superseded_and_not_agreed(planned: Planned) -> None:
    (planned.stored / "Pending/01-dig.md").write_text("- [x] Dug.\n")
    planned.tell("iterate", planned.session, "--yes")
    planned.edit("Dig")
    work = planned.read_work(planned.stored)
    pending = {path for path in work if path.startswith("Pending")}
    assert pending == {"Pending/01-dig.md", "Pending/iteration-2-01-dig.md"}
    planned.tell("resume", planned.session)
    agreed, superseded = planned.read_readme().split("## Superseded plan")
    assert "iteration-2-01-dig.md" in agreed
    assert "(Pending/01-dig.md)" not in agreed
    assert "(Pending/01-dig.md)" in superseded
    assert "iteration_1/1_plan/documents/" in superseded
    listed = planned.tell("plan", "list", "hall").stdout
    assert "Pending/01-dig.md  (superseded, kept because you changed it)" in listed


def test_a_copy_is_remembered_kept_current_and_never_undoes_the_persons_work(
    planned: Planned,
) -> None:
    copied = planned.copied
    ticked = b"- [x] Dug.\n"
    (copied / "Pending/01-dig.md").write_bytes(ticked)
    (copied / "Pending/02-build.md").rename(copied / "Current/02-build.md")
    (copied / "Pending/03-open.md").unlink()
    before = planned.read_work(copied)
    planned.tell("resume", planned.session)
    planned.tell("resume", planned.session, "--out", str(planned.out))
    assert planned.read_work(copied) == before
    said = planned.edit("Dig", "Paint").stderr
    assert "You have changed" not in said, "its text is the same as before"
    after = planned.read_work(copied)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"Pending/02-paint.md"}
    assert planned.read_work(planned.stored)["Pending/01-dig.md"] == b"# Dig\n\n- [ ] Do Dig.\n"


def test_another_out_changes_where_the_copy_is(planned: Planned, tmp_path: Path) -> None:
    planned.tell("resume", planned.session, "--out", str(tmp_path / "second"))
    planned.edit("Swim")
    assert (tmp_path / "second/hall/Pending/01-swim.md").is_file()
    assert not (planned.copied / "Pending/01-swim.md").exists()


@pytest.mark.parametrize("trouble", ["gone", "file"])
def test_a_copy_that_cannot_be_written_is_a_warning(planned: Planned, trouble: str) -> None:
    shutil.rmtree(planned.out)
    if trouble == "file":
        planned.out.write_text("a file")
    said = planned.tell("iterate", planned.session, "--yes").stderr
    assert "Warning: the copy" in said
    assert not (planned.out / "hall").exists(), "a copy that was removed does not come back"


def test_a_file_of_the_plan_is_moved_shown_and_replaced_by_commands(planned: Planned) -> None:
    for _ in range(2):
        moved = planned.tell("plan", "move", "hall", "01", "current").stdout.strip()
        assert Path(moved) == planned.stored / "Current/01-dig.md"
    assert not (planned.stored / "Pending/01-dig.md").exists()
    assert (planned.copied / "Current/01-dig.md").is_file()
    assert not (planned.copied / "Pending/01-dig.md").exists()
    (planned.scratch / "ticked.md").write_text("- [x] Dug.\n")
    planned.tell("plan", "edit", "hall", "01", "--file", str(planned.scratch / "ticked.md"))
    assert planned.tell("plan", "show", "hall", "01-dig.md").stdout == "- [x] Dug.\n"
    listed = json.loads(planned.tell("plan", "list", "hall", "--json").stdout)
    states = {file["path"]: file["state"] for file in listed}
    assert states["hall/Current/01-dig.md"] == "changed"
    assert states["hall/Pending/02-build.md"] == "as_written"
    assert "(Current/01-dig.md)" in planned.read_readme()
    (planned.stored / "Pending/01-dig.md").write_text("another")
    clash = planned.home.tell("plan", "move", "hall", "Current/01-dig.md", "pending")
    assert clash.code == 2
    assert (planned.stored / "Pending/01-dig.md").read_text() == "another"
    unknown = planned.home.tell("plan", "show", "hall", "99")
    assert unknown.code == 2


def test_a_file_that_is_deleted_by_a_command_does_not_come_back(planned: Planned) -> None:
    assert planned.tell("plan", "delete", "hall", "02").stderr == "Deleted Pending/02-build.md.\n"
    for top in (planned.stored, planned.copied):
        assert not (top / "Pending/02-build.md").exists()
    assert planned.home.tell("plan", "delete", "hall", "02").code == 2
    planned.tell("resume", planned.session)
    assert "02-build.md" not in planned.read_readme()
    planned.edit("Dig", "Build")
    for top in (planned.stored, planned.copied):
        assert not (top / "Pending/02-build.md").exists()


def test_an_export_names_what_it_could_not_take(planned: Planned, tmp_path: Path) -> None:
    film = planned.stored / "Current/film.mp4"
    with film.open("wb") as file:
        file.truncate(LIMITS.entry_bytes_max + 1)
    archive = tmp_path / "hall.zip"
    said = planned.tell("export", "hall", "--out", str(archive)).stderr
    assert (
        "Warning: left out, because larger than 64 MiB or not readable:\n  Current/film.mp4" in said
    )
    told = json.loads(planned.tell("export", "hall", "--out", str(archive), "--json").stdout)
    assert told["left_out"] == ["hall/Current/film.mp4"]
    with zipfile.ZipFile(archive) as opened:
        assert json.loads(opened.read("manifest.json"))["left_out"] == told["left_out"]
        assert "hall/Current/film.mp4" not in opened.namelist()
    assert planned.home.tell("import", str(archive)).code == 0
    film.unlink()
    assert "left out" not in planned.tell("export", "hall", "--out", str(archive)).stderr


def test_a_link_in_the_place_of_a_work_folder_stops_nothing(
    planned: Planned, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (planned.stored / "Pending").rename(elsewhere)
    (planned.stored / "Pending").symlink_to(elsewhere)
    before = read_tree(elsewhere)
    planned.edit("Swim", "Dive")
    planned.tell("resume", planned.session)
    planned.tell("export", "hall", "--out", str(tmp_path / "hall.zip"))
    assert read_tree(elsewhere) == before


def test_documents_outside_of_the_work_folders_are_still_checked(
    planned: Planned, tmp_path: Path
) -> None:
    (document,) = planned.stored.glob("session_*/iteration_1/1_plan/*_1_plan.md")
    document.write_text("damaged")
    result = planned.home.tell("export", "hall", "--out", str(tmp_path / "hall.zip"))
    assert result.code == 4
    assert "is damaged" in result.stderr
    document.unlink()
    result = planned.home.tell("export", "hall", "--out", str(tmp_path / "hall.zip"))
    assert "is missing" in result.stderr


# -- any edits between any commands ---------------------------------------------------------------


@dataclass(slots=True)
class Person:
    """Someone who works with a project's files as they please, and remembers what they wrote."""

    chance: random.Random
    tops: list[Path]
    # Their files and bytes, in each folder that they work in.
    theirs: dict[Path, bytes] = field(default_factory=dict)
    # Places that they emptied, with what was there.
    removed: dict[Path, bytes] = field(default_factory=dict)
    # What stood somewhere before they touched it. Putting it back is not their work.
    ours: dict[Path, set[bytes]] = field(default_factory=dict)

    def act(self) -> None:
        top = self.chance.choice(self.tops)
        files = [
            path
            for folder in FOLDERS
            for path in sorted((top / folder).rglob("*"))
            if path.is_file()
        ]
        for path in files:
            if path not in self.theirs:
                self.ours.setdefault(path, set()).add(path.read_bytes())
        deeds: list[Callable[[Path, list[Path]], None]] = [self._add]
        if files:
            deeds += [self._tick, self._tick, self._move, self._move, self._delete, self._rename]
        self.chance.choice(deeds)(top, files)

    def _tick(self, _top: Path, files: list[Path]) -> None:
        path = self.chance.choice(files)
        data = path.read_bytes().replace(b"- [ ]", b"- [x]", 1)
        self._put(path, data + b"note %d\n" % self.chance.randrange(10**6))

    def _add(self, top: Path, _files: list[Path]) -> None:
        name = self.chance.choice(
            ("notes.md", "Notes.md", "a b.txt", "deep/er/x.bin", "02-build.md")
        )
        path = top / self.chance.choice(FOLDERS) / name
        if not path.exists():
            self._put(path, b"own %d\n" % self.chance.randrange(10**6))

    def _move(self, top: Path, files: list[Path]) -> None:
        path = self.chance.choice(files)
        self._relocate(path, top / self.chance.choice(FOLDERS) / path.name)

    def _rename(self, _top: Path, files: list[Path]) -> None:
        path = self.chance.choice(files)
        self._relocate(path, path.with_name(f"renamed {self.chance.randrange(100)}{path.suffix}"))

    def _relocate(self, path: Path, target: Path) -> None:
        if not target.exists():
            data = path.read_bytes()
            self._delete_one(path)
            self._put(target, data)

    def _delete(self, _top: Path, files: list[Path]) -> None:
        self._delete_one(self.chance.choice(files))

    def _delete_one(self, path: Path) -> None:
        self.removed[path] = path.read_bytes()
        self.theirs.pop(path, None)
        path.unlink()

    def _put(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.theirs[path] = data
        if data in self.ours.get(path, ()):
            del self.theirs[path]
        self.removed.pop(path, None)

    def check(self) -> None:
        """Nothing of theirs is lost or changed, and nothing that they removed has come back."""
        for path, data in self.theirs.items():
            assert path.is_file(), path
            assert path.read_bytes() == data, path
        for path, data in self.removed.items():
            assert not path.is_file() or path.read_bytes() != data, path


@dataclass(slots=True)
class Commands:
    """The commands that a person may give at any time, in any order: each once, then all again."""

    planned: Planned
    chance: random.Random
    given: Counter[str] = field(default_factory=Counter)
    _deck: list[tuple[str, ...]] = field(default_factory=list)

    def give_one(self) -> None:
        if not self._deck:
            self._deck = self._list()
            self.chance.shuffle(self._deck)
        words = self._deck.pop()
        if words[0] == "next" and not self._is_waiting():
            self._give("iterate", self.planned.session, "--yes")
        self._give(*words)

    def _list(self) -> list[tuple[str, ...]]:
        session, out = self.planned.session, str(self.planned.out)
        archive = str(self.planned.scratch / "hall.zip")
        return [
            ("edit",),
            ("edit",),
            ("regenerate",),
            ("iterate", session, "--yes"),
            ("iterate", session, "--yes", "--out", out),
            ("next", session),
            ("next", session, "--out", out),
            ("resume", session),
            ("resume", session, "--out", out),
            ("export", "hall", "--out", archive),
            ("export", "hall", "--finished", "--out", archive),
            ("list", session),
            ("show",),
            ("status", session),
            ("plan", "list", "hall"),
        ]

    def _is_waiting(self) -> bool:
        told = json.loads(self.planned.tell("status", self.planned.session, "--json").stdout)
        return bool(told["session"]["status"] == "draft_generation_complete")

    def _give(self, *words: str) -> None:
        name, *more = words
        if name in ("edit", "regenerate", "show"):
            more = [self.planned.find_document()]
        if name == "edit":
            more += ["--file", str(self._write_checklist())]
        result = self.planned.home.tell(name, *more)
        # The same text again is the one refusal that is meant.
        is_same_text = "identical to version" in result.stderr
        is_waiting = result.code == ExitCode.WAITING and name in ("iterate", "resume")
        assert result.code == 0 or is_same_text or is_waiting, (words, result.stderr)
        self.given[" ".join((name, *(word for word in more if word == "--out")))] += 1

    def _write_checklist(self) -> Path:
        chance = self.chance
        steps = chance.sample(("Dig", "Build", "Open", "Paint", "Swim"), chance.randint(1, 4))
        text = build_checklist(*steps)
        file = self.planned.scratch / "checklist.md"
        file.write_text(text.replace("Do ", chance.choice(("Do ", "Now do ", "Soon do "))))
        return file


@pytest.mark.parametrize("seed", range(2))
def test_whatever_a_person_does_with_their_files_no_command_fails_or_loses_a_byte(
    staged: Planned, made_home: Path, seed: int
) -> None:
    chance = random.Random(seed)
    person = Person(chance, [staged.stored, staged.copied])
    commands = Commands(staged, chance)
    for _ in range(EDITS // EDITS_AT_ONCE // 2):
        for _ in range(EDITS_AT_ONCE):
            person.act()
        commands.give_one()
        person.check()
    if PROFILE == "thorough":
        assert commands.given.keys() >= {
            *("edit", "regenerate", "iterate", "iterate --out", "next", "next --out"),
            *("resume", "resume --out", "export --out"),
        }
    archive = staged.scratch / "last.zip"
    staged.tell("export", "hall", "--out", str(archive))
    with copy_home(made_home, staged.scratch / "other") as other:
        taken = other.tell("import", str(archive))
        assert taken.code == 0, taken.stderr
        there = Planned(other, staged.out, staged.scratch, taken.session)
        here = staged.read_work(staged.stored)
        assert sorted(there.read_work(there.stored).values()) == sorted(here.values())
        assert there.tell("status", taken.session).code == 0
    assert (staged.copied / MANIFEST_NAME).is_file()


def test_a_plan_in_a_bucket_is_worked_on_by_commands(
    tmp_path: Path, server: embedded.Server, bare_template: str, process: Path
) -> None:
    with serving_objects(tmp_path / "objects") as s3:
        home = Home(tmp_path / "home")
        url = make_database(server, bare_template, "objects_plan")
        settings = {"database_url": url, **s3.build_settings("plans")}
        run = ("run", "--process", str(process), "--models", "offline/skeptic", "--name", "hall")
        assert home.tell(*run, "A village hall.", **settings).code == 0
        listed = home.tell("plan", "list", "hall", **settings).stdout.splitlines()
        name, *others = [line.removeprefix("Pending/") for line in listed]
        moved = home.tell("plan", "move", "hall", name, "complete", **settings)
        assert moved.code == 0, moved.stderr
        listed = home.tell("plan", "list", "hall", **settings).stdout.splitlines()
        assert listed == [*(f"Pending/{other}" for other in others), f"Complete/{name}"]
        archive = str(tmp_path / "hall.zip")
        exported = home.tell("export", "hall", "--out", archive, **settings)
        assert exported.code == 0, exported.stderr
        assert f"hall/Complete/{name}" in zipfile.ZipFile(archive).namelist()
