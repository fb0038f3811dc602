"""`dialectic push`: a project's documents as a commit in a git repository of the user."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass

import click

from dialectic.cli.backend import Backend, with_backend
from dialectic.cli.copies import ProjectCopy
from dialectic.cli.terminal import count, echo_json, printable, say
from dialectic.contract.projects import Kind
from dialectic.core.transfer.bundle_format import is_finished
from dialectic.errors import UsageError

HASH_CHARS = 12


@click.command()
@click.argument("project")
@click.argument("repository")
@click.option("--branch", metavar="B", help="The branch; by default the repository's own.")
@click.option("--message", metavar="TEXT", help="The commit's message.")
@click.option("--finished", is_flag=True, help="Finished documents only.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@with_backend
async def push(
    backend: Backend,
    project: str,
    repository: str,
    *,
    branch: str | None,
    message: str | None,
    finished: bool,
    as_json: bool,
) -> None:
    """Push the documents of PROJECT to the git REPOSITORY, which is a URL or a folder.

    PROJECT is a folder, a name, or an id of it or of a session. The files are in a folder named
    after the project. Your git commits and pushes, with your name and your access. Files that were
    changed there are left alone.
    """
    from dialectic.cli.git_checkout import hide_password, open_checkout

    found = await backend.load_project(await backend.get_id(Kind.PROJECT, project))
    slug = found.slug
    async with open_checkout(repository, branch) as checkout:
        files = await backend.list_files(found.id, slug)
        if finished:
            files = [file for file in files if is_finished(file.path)]
        if (checkout.folder / slug).is_file():  # also a link, which is not followed
            raise UsageError(
                f"{slug} is a file in the repository, so no folder can have its name. Rename it "
                "there, or choose another --branch.",
                reason="not_a_folder",
                subject=slug,
            )
        read = functools.partial(backend.read_file, found.id)
        kept = await ProjectCopy.open(checkout.folder, slug).update(files, read)
        commit = await checkout.commit(slug, message or f"Update {slug}")
        if commit is not None:
            await checkout.push()
    pushed = Pushed(
        project=slug,
        repository=hide_password(repository),
        branch=checkout.branch,
        commit=commit,
        files=len(files),
        newer=tuple(f"{slug}/{one.newer}" for one in kept),
    )
    if as_json:
        echo_json(asdict(pushed))
    else:
        _say(pushed)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    project: str
    repository: str
    branch: str
    # None if the repository had everything.
    commit: str | None
    files: int
    # New versions of files that were changed in the repository.
    newer: tuple[str, ...]


def _say(pushed: Pushed) -> None:
    """Print the commit, and say what it has and what was left alone."""
    files = f"{count(pushed.files, 'file')} of {pushed.project}"
    if pushed.commit is None:
        say(f"Nothing to push: {printable(pushed.repository)} has {files}.")
    else:
        click.echo(pushed.commit)
        where = f"{printable(pushed.repository)}, branch {pushed.branch}"
        say(f"Pushed {files} to {where}, as {pushed.commit[:HASH_CHARS]}.")
    if pushed.newer:
        say(f"Changed there, and left alone: {count(len(pushed.newer), 'file')}. New versions:")
        for path in pushed.newer:
            say(f"  {path}")
