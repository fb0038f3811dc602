"""`dialectic report`: one HTML file with plan, documents, lineage and costs of a session."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NoReturn

import click

from dialectic.atomic_write import replacing
from dialectic.cli.backend import Backend, with_backend
from dialectic.cli.terminal import echo_json, printable
from dialectic.contract.projects import Kind
from dialectic.errors import UsageError

# How a file begins that this command wrote earlier, and may replace.
OURS = {".html": b'content="Dialectic report"', ".pdf": b"%PDF-"}
HEAD_BYTES = 4_096


@click.command()
@click.argument("session")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write; by default here, named after the project and the session.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@click.option("--pdf", "as_pdf", is_flag=True, help="Write a PDF file; needs Chromium or Chrome.")
@click.option("--no-drafts", is_flag=True, help="Leave out the drafts of later steps.")
@click.option("--no-names", is_flag=True, help="Call models by their seats.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@with_backend
async def report(
    backend: Backend,
    session: str,
    out: Path | None,
    *,
    opens: bool,
    as_pdf: bool,
    no_drafts: bool,
    no_names: bool,
    as_json: bool,
) -> None:
    """Write plan, documents, lineage and costs of SESSION into one HTML file."""
    # Imported only if needed.
    from dialectic.cli.browsers import get_browser, print_pdf, show_page

    browser = get_browser() if as_pdf else None
    session_id = await backend.get_id(Kind.SESSION, session)
    ending = ".html" if browser is None else ".pdf"
    if out is None:
        slug = (await backend.look(session_id)).session.project_slug
        out = Path(f"{slug}-{str(session_id)[:8]}{ending}")
    _check_place(out, ending)
    page = await backend.build_report(session_id, drafts=not no_drafts, names=not no_names)
    if browser is None:
        _write(out, page)
    else:
        with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
            draft = Path(folder, "report.html")
            await asyncio.to_thread(draft.write_bytes, page)
            await print_pdf(browser, draft, out)
    if as_json:
        echo_json({"session_id": session_id, "path": str(out), "size_bytes": out.stat().st_size})
    else:
        click.echo(printable(str(out)))
    if opens:
        await show_page(out.resolve().as_uri())


def _check_place(out: Path, ending: str) -> None:
    """Refuse to replace a file that is not a report, before anything is built."""
    try:
        with out.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        if not out.absolute().parent.is_dir():
            _refuse(out, "its folder does not exist")
        return
    except OSError as error:
        _refuse(out, str(error.strerror))
    if OURS[ending] not in head:
        _refuse(out, "a file of yours is there")


def _write(out: Path, data: bytes) -> None:
    try:
        with replacing(out) as file:
            file.write(data)
    except OSError as error:
        _refuse(out, str(error.strerror))


def _refuse(out: Path, why: str) -> NoReturn:
    raise UsageError(
        f"{out} cannot be written: {why}. Choose another place with --out.",
        reason="unwritable",
        subject=str(out),
    ) from None
