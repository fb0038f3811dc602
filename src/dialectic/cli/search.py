"""`dialectic search`: find passages in the documents of a project."""

from __future__ import annotations

import textwrap

import click

from dialectic.cli.desk import Desk, act_at_desk
from dialectic.cli.terminal import count, echo_json, printable, say
from dialectic.errors import ExitCode
from dialectic.search import LIMIT_DEFAULT, Hit, Results, check_query

EXCERPT_CHARS = 320
WIDTH = 96


@click.command()
@click.argument("project")
@click.argument("query")
@click.option("--limit", type=int, default=LIMIT_DEFAULT, help="How many passages at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def search(project: str, query: str, *, limit: int, as_json: bool) -> None:
    """Find what answers QUERY in PROJECT (a folder, a name, or an id of it or of a session)."""

    async def act(desk: Desk) -> ExitCode:
        check_query(query, limit)
        results = await desk.search(await desk.find_project(project), query, limit)
        if as_json:
            echo_json(describe_results(results))
            return ExitCode.DONE
        for number, hit in enumerate(results.hits, 1):
            click.echo(printable(build_entry(number, hit)))
        passages = count(len(results.hits), "passage")
        say(f"{passages} in {count(results.documents, 'document')}, by {results.embedder}.")
        return ExitCode.DONE

    act_at_desk(act)


def describe_results(results: Results) -> dict[str, object]:
    """Build what a program wants to know of a search."""
    return {
        "embedder": results.embedder,
        "embedded_tokens": results.embedded_tokens,
        "documents": results.documents,
        "hits": [
            {
                "document_id": str(hit.document_id),
                "session_id": None if hit.session_id is None else str(hit.session_id),
                "path": hit.path,
                "heading_path": list(hit.heading_path),
                "text": hit.text,
                "start": hit.start,
                "end": hit.end,
                "score": round(hit.score, 4),
            }
            for hit in results.hits
        ],
    }


def build_entry(number: int, hit: Hit) -> str:
    """Build the lines that show one passage: its document, its headings, the start of it."""
    words = " ".join(hit.text.split())
    shown = words if len(words) <= EXCERPT_CHARS else f"{words[:EXCERPT_CHARS].rstrip()}…"
    lines = [f"{number}. {hit.path}  ({str(hit.document_id)[:8]})"]
    if hit.heading_path:
        lines.append(f"   {' > '.join(hit.heading_path)}")
    lines.append(textwrap.fill(shown, WIDTH, initial_indent="     ", subsequent_indent="     "))
    return "\n".join([*lines, ""])
