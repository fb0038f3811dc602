"""The page about the API names every route that there is, and every code of a problem."""

from __future__ import annotations

import re
from pathlib import Path

from dialectic import errors
from dialectic.api.app import PREFIX
from dialectic.api.openapi import ASSETS
from tests.api_description import load_description

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/api.md").read_text(encoding="utf-8")
# Of jobs, workers and servers that do not start; no request meets them.
INWARD = {
    *("invalid_payload", "plan_error", "lease_lost", "embedded_server", "storage_mismatch"),
    *("text_busy", "schema_outdated"),
}
# Of clients that find no server.
INWARD |= {"server_unreachable", "api_error", "api_refusal"}


def test_every_route_is_described_with_what_it_answers() -> None:
    described = dict(re.findall(r"^\| `([A-Z]+ /\S+)` \| ([\d, ]+) \|", TEXT, re.MULTILINE))
    there = {
        f"{method.upper()} {path.removeprefix(PREFIX)}": ", ".join(
            status for status in operation["responses"] if int(status) < 400
        )
        for path, methods in load_description()["paths"].items()
        for method, operation in methods.items()
    }

    assert described == there


def test_every_operation_says_what_it_does_and_has_examples_where_it_takes_a_body() -> None:
    description = load_description()
    for path in description["paths"].values():
        for operation in path.values():
            assert operation["summary"]
            assert operation["description"]
            assert operation["tags"]


def test_every_code_that_a_request_can_meet_is_described() -> None:
    described = set(
        re.findall(r"`([a-z_]+)`", TEXT.split("## Errors")[1].split("## Idempotency")[0])
    )
    known = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.DialecticError)
    }

    told = {code for code in known if not code.startswith("provider_")} - INWARD
    assert told - {"unauthenticated"} - described == set()


def test_what_the_page_needs_is_ours() -> None:
    folder = ROOT / "src/dialectic/api/assets"
    assert {path.name for path in folder.iterdir()} == {name for name, _ in ASSETS.values()}
    for path in folder.iterdir():
        assert "//" not in path.read_text("utf-8").replace("\n// ", "\n").removeprefix("//")


def test_every_schema_has_a_name_of_its_own() -> None:
    # Two classes of one name are told apart by their modules, which no client should see.
    names = load_description()["components"]["schemas"]
    assert [name for name in names if name.startswith("dialectic__")] == []
