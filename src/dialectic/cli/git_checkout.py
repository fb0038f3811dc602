"""A checkout of a git repository: fetched, changed, committed and pushed by the user's own git.

The user's git knows their name, their keys and their passwords; none of it is read or stored here.
Nothing reaches the repository before the one push, which never overwrites what others pushed. Knows
no projects.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from dialectic.cli.terminal import printable
from dialectic.errors import UsageError
from dialectic.settings import inherited_environment

DEFAULT_BRANCH = "main"
HEADS = "refs/heads/"
# A process that git itself started, such as a hook, must not work in the repository of that git.
FOREIGN = re.compile(r"GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|PREFIX|NAMESPACE)")
SAID_LINES_MAX = 4


@dataclass(frozen=True, slots=True)
class Checkout:
    """A branch of a repository in a folder of its own."""

    folder: Path
    repository: str
    branch: str

    async def commit(self, subfolder: str, message: str) -> str | None:
        """Commit everything in a subfolder; return the commit, or None if nothing changed."""
        # What the repository ignores is added as well: the user asked for these files.
        await self._git("add", "--all", "--force", "--", subfolder)
        if not await self._git("status", "--porcelain", "--", subfolder):
            return None
        await self._git("commit", "--quiet", "--message", message, "--", subfolder)
        return await self._git("rev-parse", "HEAD")

    async def push(self) -> None:
        """Push the branch; raise if others have pushed meanwhile, or the repository refuses."""
        await self._git("push", "--quiet", self.repository, f"HEAD:{HEADS}{self.branch}")

    async def _git(self, *words: str) -> str:
        return await run_git(self.folder, self.repository, *words)


@asynccontextmanager
async def open_checkout(repository: str, branch: str | None) -> AsyncIterator[Checkout]:
    """Check a branch out in a temporary folder; a new branch starts from the default one."""
    repository = _check_address(repository)
    with tempfile.TemporaryDirectory(prefix="dialectic-") as name:
        folder = Path(name)
        heads, default = await _list_heads(folder, repository)
        chosen = branch or default or DEFAULT_BRANCH
        await run_git(folder, repository, "check-ref-format", f"{HEADS}{chosen}")
        await run_git(folder, repository, "init", "--quiet", f"--initial-branch={chosen}")
        # A link could lead out of the folder; and what was pushed is compared byte for byte.
        await run_git(folder, repository, "config", "core.symlinks", "false")
        await run_git(folder, repository, "config", "core.autocrlf", "false")
        start = chosen if chosen in heads else default
        if start in heads:
            wanted = f"{HEADS}{start}"
            await run_git(folder, repository, "fetch", "--quiet", "--depth=1", repository, wanted)
            await run_git(folder, repository, "reset", "--quiet", "--hard", "FETCH_HEAD")
        yield Checkout(folder, repository, chosen)


def _check_address(repository: str) -> str:
    """Check a repository's address; a folder is named in full, as git runs in another one."""
    if repository.startswith("-") or not repository.strip():
        raise UsageError(
            f"{repository!r} is not a git repository. Give its URL or its folder.",
            reason="not_a_repository",
            subject="REPOSITORY",
        )
    place = Path(repository)
    return str(place.absolute()) if place.exists() else repository


async def _list_heads(folder: Path, repository: str) -> tuple[set[str], str]:
    """List the branches of a repository, and its default one, which may not exist yet."""
    listed = await run_git(folder, repository, "ls-remote", "--symref", "--", repository)
    heads = set(re.findall(rf"^[0-9a-f]+\t{HEADS}(.+)$", listed, re.MULTILINE))
    default = re.search(rf"^ref: {HEADS}(.+)\tHEAD$", listed, re.MULTILINE)
    return heads, default[1] if default else ""


async def run_git(folder: Path, repository: str, *words: str) -> str:
    """Run the user's git in a folder; return what it printed, or raise what it said."""
    environment = {
        name: value
        for name, value in inherited_environment().items()
        if not FOREIGN.fullmatch(name)
    }
    if not sys.stdin.isatty():
        environment["GIT_TERMINAL_PROMPT"] = "0"  # it would wait for a person
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", *words),
            cwd=folder,
            env=environment | {"LC_ALL": "C"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise UsageError(
            "git is not installed. Install it, or use `dialectic export`.", reason="no_git"
        ) from None
    try:
        out, said = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        _refuse(words[0], repository, said.decode(errors="replace"))
    return out.decode(errors="replace").strip()


def _refuse(verb: str, repository: str, said: str) -> NoReturn:
    """Raise what git said about a step that failed, with what helps."""
    shown, quoted = hide_password(repository), said.replace(repository, hide_password(repository))
    lines = [line.strip() for line in quoted.splitlines() if line.strip()]
    why = printable(" ".join(lines[:SAID_LINES_MAX]))
    reason, advice = _advise(verb, said)
    message = f"git {verb} failed for {shown}: {why} {advice} The repository is unchanged."
    raise UsageError(message, reason=reason, subject=shown)


def _advise(verb: str, said: str) -> tuple[str, str]:
    """Name the reason of a failure, and what to do about it."""
    if verb == "push" and ("fetch first" in said or "non-fast-forward" in said):
        return "push_outdated", "Others have pushed meanwhile: run the command again."
    if "refusing to update checked out branch" in said:
        return "branch_checked_out", "Choose another --branch, or push to a bare repository."
    if "Please tell me who you are" in said or "empty ident name" in said:
        return "git_identity", "Set user.name and user.email with `git config --global`."
    if verb == "check-ref-format":
        return "invalid_branch", "Choose a --branch that git accepts as a name."
    return "git_failed", "Check the address and your rights with `git ls-remote`."


def hide_password(repository: str) -> str:
    """Show a repository's address without the password in it."""
    try:
        parts = urlsplit(repository)
        if parts.password is None and "@" not in parts.netloc:
            return repository
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the repository"
    return parts._replace(netloc=f"…@{host}").geturl()
