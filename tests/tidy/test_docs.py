"""What the documents name exists, and what exists is named."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import click
from pydantic import BaseModel

from dialectic.cli.main import COMMANDS, cli
from dialectic.contract.changes import CHANGE_TYPES
from dialectic.contract.events import (
    EVENT_TYPES,
    Draft,
    EventError,
    ReceivedContribution,
    SavedChunk,
    SessionSnapshot,
    StateReset,
)
from dialectic.core.job import JobStatus
from dialectic.core.models.endpoint import BUILT_IN
from dialectic.core.models.endpoint_config import EMBEDDING_KEYS, ENDPOINT_KEYS, MODEL_KEYS
from dialectic.core.session_state import Phase
from dialectic.core.transfer import bundle_format
from dialectic.core.transfer.rows import ProjectRows
from dialectic.engine import POINTS
from dialectic.errors import ExitCode
from dialectic.providers.catalog import load_shipped
from dialectic.settings import KNOWN, Settings
from tests.tidy.module_list import PAGE, build_page, list_modules

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dialectic"
BINDINGS = "src/dialectic/db/sql/bindings.sql"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def first_column(text: str, heading: str) -> list[str]:
    """The code words in the first column of the table below a heading."""
    part = text.split(heading, 1)[1]
    part = part.split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)`", part, re.MULTILINE)


def test_the_list_of_modules_is_generated_from_their_docstrings() -> None:
    assert PAGE.read_text("utf-8") == build_page()


def test_every_trigger_is_listed_under_what_fires_when() -> None:
    made = re.findall(r"create (?:or replace|constraint) trigger (\w+)", read(BINDINGS))

    assert first_column(read("ARCHITECTURE.md"), "## What fires when") == made


def test_every_setting_is_described_with_its_default() -> None:
    text = read("docs/settings.md")
    rows = dict(re.findall(r"^\| `DIALECTIC_(\w+)` \| ([^|]+) \|", text, re.MULTILINE))

    for field in (field for field in dataclasses.fields(Settings) if field.name in KNOWN):
        shown = rows.pop(field.name.upper())
        if field.default not in ("", None, dataclasses.MISSING):
            # As config.toml spells it.
            default = json.dumps(field.default).strip('"').removesuffix(".0")
            assert shown.strip("`") == default, field.name
    assert not rows


def test_every_key_of_an_endpoint_and_of_a_model_is_described_in_its_order() -> None:
    described = first_column(read("docs/settings.md"), "## Endpoints")

    assert described == [*ENDPOINT_KEYS, *MODEL_KEYS, *EMBEDDING_KEYS]


def test_every_default_model_is_described() -> None:
    described = first_column(read("docs/models.md"), "## Which models a run asks")
    endpoints = [BUILT_IN[name] for name in load_shipped()]

    assert described == [endpoint.api_key_env for endpoint in endpoints]
    for shipped in load_shipped().values():
        assert f"| `{shipped.default}` |" in read("docs/models.md")


def test_every_command_and_option_is_described() -> None:
    text = read("docs/cli.md")

    for name in COMMANDS:
        assert f"## `dialectic {name}`" in text
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        section = text.split(f"## `dialectic {name}`", 1)[1].split("\n## ", 1)[0]
        for option in (p for p in command.params if isinstance(p, click.Option)):
            # What all commands have is described once.
            where = text if option.hidden else section
            assert option.opts[0] in where, (name, option.opts)
        for inner in command.commands if isinstance(command, click.Group) else ():
            assert f"dialectic {name} {inner}" in section


def test_every_exit_code_is_described() -> None:
    codes = re.findall(r"^\| (\d+) \|", read("docs/cli.md"), re.MULTILINE)

    assert [int(code) for code in codes] == [code.value for code in ExitCode]


EVENT_TYPE = re.compile(
    r"['\"]((?:dialectic|contribution|session)_(?:progress_update|contribution_received|"
    r"generation_\w+|paused|cancelled))['\"]"
)


def test_every_event_is_described_with_its_class_and_its_fields() -> None:
    rows = [f"| `{kind.type}` | {describe_fields(kind)} |" for kind in EVENT_TYPES]
    parts = (ReceivedContribution, SavedChunk, EventError, StateReset, Draft, SessionSnapshot)
    rows += [f"| {describe_fields(part)} |" for part in parts]

    text = read("docs/events.md").split("## Types", 1)[1].split("\n## ", 1)[0]

    for row in rows:
        assert row in text
    assert len(re.findall(r"^\| `", text, re.MULTILINE)) == len(rows)


def test_every_change_is_described_with_its_class_and_its_fields() -> None:
    text = read("docs/events.md").split("## Changes", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (`\w+` \| `\w+` \| [^|]+) \|", text, re.MULTILINE)
    assert found == [f"`{kind.type}` | {describe_fields(kind)}" for kind in CHANGE_TYPES]


def describe_fields(kind: type[BaseModel]) -> str:
    """A class of the contract and the names that its fields have on the wire."""
    fields = kind.model_json_schema()["properties"]
    return f"`{kind.__name__}` | {', '.join(fields)}"


def test_the_type_of_an_event_is_spelled_in_its_class_and_in_sql_alone() -> None:
    written = {
        found
        for path in PACKAGE.rglob("*.sql")
        for found in EVENT_TYPE.findall(path.read_text("utf-8"))
    }
    types = {kind.type for kind in EVENT_TYPES}
    assert written <= types
    # Two of them are also reasons of errors.
    for kind in types - {"session_paused", "session_cancelled"}:
        places = [path for path in PACKAGE.rglob("*.py") if f'"{kind}"' in path.read_text("utf-8")]
        assert places == [PACKAGE / "contract" / "events.py"]


def test_the_statuses_are_described_in_their_order() -> None:
    assert first_column(read("docs/jobs.md"), "## Statuses") == [str(s) for s in JobStatus]


def test_the_phases_of_a_session_are_described_in_their_order() -> None:
    assert first_column(read("docs/jobs.md"), "## A session's phase") == list(Phase)


def test_the_moves_of_jobs_and_sessions_are_described_as_the_tables_have_them() -> None:
    migrations = PACKAGE / "db" / "sql" / "migrations"
    text = "".join(
        (migrations / name).read_text("utf-8") for name in ("0006_jobs.sql", "0004_sessions.sql")
    )
    moves = re.findall(r"^  \('(\w+)', '(\w+)', '([^']+)'\)", text, re.MULTILINE)
    shown = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([^|]+) \|$", read("docs/jobs.md"), re.MULTILINE)

    assert shown == moves


def test_every_failpoint_is_described() -> None:
    assert tuple(first_column(read("docs/jobs.md"), "## Failpoints")) == POINTS


def test_every_table_of_a_bundle_is_described_in_its_order() -> None:
    assert first_column(read("docs/bundle.md"), "## Tables") == list(ProjectRows.model_fields)


def test_the_limits_of_a_bundle_are_described() -> None:
    text = read("docs/bundle.md")

    for words, limit in (
        ("entries", f"{bundle_format.LIMITS.entries_max:,}"),
        ("bytes of the archive", f"{bundle_format.LIMITS.archive_bytes_max >> 20} MiB"),
        ("bytes of one file, unpacked", f"{bundle_format.LIMITS.entry_bytes_max >> 20} MiB"),
        ("bytes in all, unpacked", f"{bundle_format.LIMITS.total_bytes_max >> 30} GiB"),
        (f"swelling of an entry over {bundle_format.RATIO_FREE_BYTES >> 20} MiB", "200 times"),
    ):
        assert f"| {words} | {limit} |" in text
    assert bundle_format.RATIO_MAX == 200
    assert f'`"version": {bundle_format.VERSION}`' in text
    assert f'`"format": "{bundle_format.FORMAT}"`' in text


def test_links_between_documents_lead_to_a_file_and_to_a_heading_in_it() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
            name, _, anchor = link.partition("#")
            if name.startswith(("http:", "https:")):
                continue
            target = path.parent / name if name else path
            assert target.exists(), (path.name, link)
            if anchor:
                assert anchor in list_anchors(target), (path.name, link)


def test_every_module_that_a_document_names_exists() -> None:
    modules = {name.removeprefix("dialectic.") for name in list_modules()}
    packages = {name.partition(".")[0] for name in modules} - {"dialectic"}
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for word in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", path.read_text("utf-8")):
            package, last = word.partition(".")[0], word.rpartition(".")[2]
            if package in packages and last not in ("py", "md", "sql", "toml"):
                # A module, or what it owns.
                assert {word, word.rpartition(".")[0]} & modules, (path.name, word)


def list_anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_picture_of_the_layers_names_every_package() -> None:
    picture = read("ARCHITECTURE.md").split("## Layers\n\n```\n", 1)[1].split("```", 1)[0]
    drawn = {word for line in picture.splitlines() for word in re.split(r" {2,}", line)}
    there = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix in ("", ".py") and path.stem[0] != "_"
    }

    assert there <= drawn


def test_every_command_in_the_readme_is_one() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", read("README.md"), re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^(dialectic .+)$", "".join(blocks), re.MULTILINE)

    assert len(commands) > 20
    for command in commands:
        name, *words = shlex.split(command, comments=True)[1:]
        if name == "--server":
            _, name, *words = words
        check_words([name, *words])


def check_words(words: list[str]) -> None:
    """See that the command line takes these words, without running them."""
    name, *rest = words
    assert name in COMMANDS, words
    command = cli.get_command(click.Context(cli), name)
    while isinstance(command, click.Group):
        assert rest[0] in command.commands, words
        command, *rest = command.commands[rest[0]], *rest[1:]
    assert command is not None
    options = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    assert {word for word in rest if word.startswith("--")} <= options, words
