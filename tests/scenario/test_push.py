"""A project's documents become commits of a person's git repository, made by their own git."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dialectic.cli.copies import MANIFEST_NAME
from dialectic.cli.git_checkout import hide_password, open_checkout
from dialectic.errors import UsageError
from tests.command_pool import CommandResult
from tests.ports import find_free_port
from tests.scenario.test_run import PROMPT, Home, copy_home

SLUG = "village-hall"
IDENTITY = "[user]\n\tname = Anna\n\temail = anna@example.org\n"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Desk:
    """A home with a finished session, a bare repository, and a person's git."""

    home: Home
    repository: Path
    folder: Path
    session: str

    def push(self, *words: str) -> CommandResult:
        return self.home.tell("push", "Village hall", str(self.repository), *words)

    def list_files(self, branch: str = "main") -> list[str]:
        listed = git(self.repository, "ls-tree", "-r", "--name-only", branch)
        return listed.splitlines()

    def read(self, path: str, branch: str = "main") -> str:
        return git(self.repository, "show", f"{branch}:{path}")

    def clone(self) -> Path:
        git(self.folder, "clone", "--quiet", str(self.repository), "theirs")
        return self.folder / "theirs"


@pytest.fixture
def desk(made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    settings = tmp_path / "gitconfig"
    settings.write_text(IDENTITY)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repository = tmp_path / "plans.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(repository))
    with copy_home(made_home, tmp_path / "home") as home:
        models = ("--models", "offline/skeptic", "--until", "thesis")
        session = home.tell("run", PROMPT, "--name", "Village hall", *models).session
        yield Desk(home, repository, tmp_path, session)


def test_the_first_push_fills_an_empty_repository_and_the_next_has_nothing_to_do(
    desk: Desk,
) -> None:
    first = desk.push("--json")
    assert first.code == 0, first.stderr
    told = json.loads(first.stdout)
    assert told["branch"] == "main"
    assert told["commit"] == git(desk.repository, "rev-parse", "main")
    files = desk.list_files()
    assert len(files) == told["files"] + 1  # the copy's manifest
    assert f"{SLUG}/{MANIFEST_NAME}" in files
    assert f"{SLUG}/project_readme.md" in files
    assert git(desk.repository, "log", "--format=%an <%ae>") == "Anna <anna@example.org>"

    again = json.loads(desk.push("--json").stdout)
    assert (again["commit"], again["files"]) == (None, told["files"])
    assert git(desk.repository, "rev-list", "--count", "main") == "1"


def test_what_others_changed_in_the_repository_is_left_alone(desk: Desk) -> None:
    desk.push()
    theirs = desk.clone()
    readme, (seed, *_) = (
        f"{SLUG}/project_readme.md",
        [path for path in desk.list_files() if path.endswith("seed_prompt.md")],
    )
    (theirs / readme).write_text("Mine.")
    (theirs / SLUG / "notes.md").write_text("A note.")
    (theirs / "README.md").write_text("All plans.")
    git(theirs, "rm", "--quiet", seed)
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message", "Work on it")
    git(theirs, "push", "--quiet")

    (contribution,) = json.loads(desk.home.tell("list", desk.session, "--json").stdout)
    better = desk.folder / "better.md"
    better.write_text("# Better\n\nA stall with a telephone.\n")
    edited = desk.home.tell("edit", contribution["id"], "--file", str(better))
    assert edited.code == 0, edited.stderr
    pushed = desk.push("--json", "--message", "Second thoughts")

    assert pushed.code == 0, pushed.stderr
    assert desk.read(readme) == "Mine."
    assert desk.read(f"{SLUG}/notes.md") == "A note."
    assert desk.read("README.md") == "All plans."
    assert seed not in desk.list_files(), "what was deleted does not come back"
    (newer,) = json.loads(pushed.stdout)["newer"]
    assert newer == f"{SLUG}/project_readme.new.md"
    assert "Village hall" in desk.read(newer)
    assert git(desk.repository, "log", "-1", "--format=%s") == "Second thoughts"


def test_finished_documents_alone_go_to_a_branch_of_their_own(desk: Desk) -> None:
    pushed = desk.push("--branch", "reading", "--finished", "--json")
    assert pushed.code == 0, pushed.stderr
    desk.push()

    assert json.loads(pushed.stdout)["branch"] == "reading"
    left_out = set(desk.list_files()) - set(desk.list_files("reading"))
    assert left_out
    assert all("/raw_responses/" in path or "/_work/" in path for path in left_out)


@pytest.mark.parametrize(
    ("repository", "branch", "reason"),
    [
        ("nowhere.git", None, "git_failed"),
        ("", None, "not_a_repository"),
        ("--upload-pack=touch owned", None, "not_a_repository"),
        ("plans.git", "a..b", "invalid_branch"),
    ],
)
async def test_an_invalid_repository_or_branch_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, repository: str, branch: str | None, reason: str
) -> None:
    monkeypatch.chdir(desk.folder)
    with pytest.raises(UsageError) as refused:
        async with open_checkout(repository, branch):
            pass
    assert refused.value.reason == reason
    assert git(desk.repository, "for-each-ref") == ""


def test_a_repository_that_cannot_be_reached_is_named_without_its_password(desk: Desk) -> None:
    address = f"http://anna:s3cret@127.0.0.1:{find_free_port()}/plans.git"
    refused = desk.home.tell("push", "Village hall", address)

    assert refused.code == 2
    assert "s3cret" not in refused.stdout + refused.stderr


async def test_each_refusal_of_git_has_its_reason_and_leaves_the_repository_unchanged(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.push()
    before = git(desk.repository, "rev-parse", "main")
    theirs = desk.clone()

    # Somebody pushed between our fetch and our push.
    async with open_checkout(str(desk.repository), None) as checkout:
        (checkout.folder / SLUG / "ours.md").write_text("Ours.")
        assert await checkout.commit(SLUG, "Ours") is not None
        git(theirs, "commit", "--quiet", "--allow-empty", "--message", "Theirs")
        git(theirs, "push", "--quiet")
        with pytest.raises(UsageError) as outdated:
            await checkout.push()
    assert outdated.value.reason == "push_outdated"
    assert git(desk.repository, "rev-parse", "main") == git(theirs, "rev-parse", "HEAD") != before

    # The branch is checked out in a folder that is not bare.
    async with open_checkout(str(theirs), None) as checkout:
        (checkout.folder / SLUG / "ours.md").write_text("Ours.")
        await checkout.commit(SLUG, "Ours")
        with pytest.raises(UsageError) as checked_out:
            await checkout.push()
    assert checked_out.value.reason == "branch_checked_out"

    # Git does not know who commits.
    (desk.folder / "gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    async with open_checkout(str(desk.repository), None) as checkout:
        (checkout.folder / SLUG / "ours.md").write_text("Ours.")
        with pytest.raises(UsageError) as unknown:
            await checkout.commit(SLUG, "Ours")
    assert unknown.value.reason == "git_identity"

    monkeypatch.setenv("PATH", str(desk.folder))
    with pytest.raises(UsageError) as absent:
        async with open_checkout(str(desk.repository), None):
            pass
    assert absent.value.reason == "no_git"


def test_a_link_in_the_repository_leads_nowhere(desk: Desk) -> None:
    outside = desk.folder / "outside"
    outside.mkdir()
    theirs = desk.clone()
    (theirs / SLUG).symlink_to(outside)
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message", "A link")
    git(theirs, "push", "--quiet", "origin", "HEAD:main")

    assert desk.push().code == 2
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://anna:secret@example.org/plans.git", "https://…@example.org/plans.git"),
        ("https://token@example.org/plans.git", "https://…@example.org/plans.git"),
        ("https://example.org/plans.git", "https://example.org/plans.git"),
        ("git@example.org:plans.git", "git@example.org:plans.git"),
        ("../plans.git", "../plans.git"),
    ],
)
def test_a_password_in_an_address_is_never_shown(given: str, shown: str) -> None:
    assert hide_password(given) == shown
