"""The shell names what its page needs, and vendored files are as they were released."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.requests import Request

from dialectic.web import pages
from tests.api_description import load_description
from tests.golden.product import list_errors
from tools import openapi_types, vendor

STATIC = Path(pages.__file__).with_name("static")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A state of the connection, a kind of activity, an event that no server sends yet, and codes that
# the database gives to jobs.
OWN_NAMES = {"signed_out", "stage_done", "claims_changed", "child_failed", "prerequisite_failed"}


def test_the_shell_preloads_every_module_of_its_page_once() -> None:
    named = re.findall(
        r'modulepreload" href="/assets/\w+/([^"]+)"', pages.build_shell("projects").decode()
    )

    assert len(named) == len(set(named))
    assert {"js/app.js", "js/views/projects.js", "vendor/lit/lit-html.js"} <= set(named)
    assert "js/views/palette.js" not in named
    sources = {path: (STATIC / path).read_text("utf-8") for path in named}
    for path, source in sources.items():
        for imported in re.findall(r'from ?"(\.[^"]+)"', source):
            there = (STATIC / path).parent.joinpath(imported).resolve().relative_to(STATIC)
            assert there.as_posix() in named


def test_a_shell_names_what_its_page_asks_for_first() -> None:
    session = "3f0e8b1c-7a52-5d64-9c1e-2b7a4d5e6f70"

    def preloads(view: str, path_id: str = "", query: bytes = b"") -> list[str]:
        params = {"path_params": {"id": path_id}, "query_string": query, "headers": []}
        return pages.list_preloads(view, Request({"type": "http", **params}))

    board = f"/api/v1/sessions/{session}/board"
    assert preloads("session", session) == ["/api/v1/me", board]
    assert preloads("session", session, b"i=1") == ["/api/v1/me"]
    assert preloads("session", "x>; rel=preload") == ["/api/v1/me"]
    assert preloads("document", session) == ["/api/v1/me"]
    assert preloads("sign_in") == []
    link = pages.respond_with_shell("session", preloads=preloads("session", session))
    assert link.headers["link"].count("; rel=preload; as=fetch; crossorigin") == 2
    assert "link" not in pages.respond_with_shell("sign_in").headers


def test_every_page_has_a_view_or_will_have_one_under_its_name() -> None:
    assert all(re.fullmatch(r"[a-z_]+", view) for view in pages.PAGES.values())
    assert (STATIC / "js" / "views" / f"{pages.NOT_FOUND}.js").is_file()


def test_equal_files_have_an_equal_hash_and_a_shell_is_small() -> None:
    assert pages.load_assets() is pages.load_assets()
    assert re.fullmatch(r"[0-9a-f]{16}", pages.load_assets().digest)
    assert max(len(pages.build_shell(view)) for view in {*pages.PAGES.values()}) < 4096


def test_vendored_files_are_as_they_were_released_and_no_other_is_there() -> None:
    assert vendor.find_differences() == []
    names = {path.name for path in vendor.PLACE.rglob("*.js")}
    assert not names & {"unsafe-html.js", "unsafe-svg.js", "unsafe-mathml.js", "until.js"}


def test_only_one_module_turns_text_into_html() -> None:
    way = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|createPolicy|document\.write")
    found = [p.name for p in (STATIC / "js").rglob("*.js") if way.search(p.read_text("utf-8"))]

    assert found == ["html.js"]


def test_modules_are_short_and_views_use_no_style_attribute() -> None:
    for path in (STATIC / "js").rglob("*.js"):
        source = path.read_text("utf-8")
        assert len(source.splitlines()) <= 400, path.name
        assert not re.search(r"""\sstyle=["$]""", source), path.name


@pytest.mark.sentence(72)
def test_the_types_of_the_api_are_those_of_its_description_and_stay_with_editors() -> None:
    types = openapi_types.PLACE.read_text("utf-8")
    description = load_description()

    assert types == openapi_types.write_types(description), "`make openapi-types` writes them"
    exported = set(re.findall(r"^export (?:interface|type) (\w+)", types, re.MULTILINE))
    assert exported == set(description["components"]["schemas"])
    assert {"StreamData", "KnownEvent", "ChangeEvent", "Draft"} <= exported
    assert openapi_types.PLACE.name not in pages.load_assets().by_path


@pytest.mark.sentence(72)
def test_modules_name_only_types_that_the_api_has() -> None:
    types = openapi_types.PLACE.read_text("utf-8")
    named = {
        name
        for path in (STATIC / "js").rglob("*.js")
        for name in re.findall(
            r'(?:import\("[./]*api\.d\.ts"\)|\bApi)\.(\w+)', path.read_text("utf-8")
        )
    }

    assert {"Me", "Wallet", "BoardJob"} <= named
    assert all(re.search(rf"^export \w+ {name}\b", types, re.MULTILINE) for name in named)


def test_modules_read_only_fields_that_the_api_has() -> None:
    types = openapi_types.PLACE.read_text("utf-8")
    # Fields, kinds of events, and codes: what the API names is written with underscores, what a
    # page calls by itself is not.
    known = {*re.findall(r"^\s+(\w+)\??:", types, re.MULTILINE), *re.findall(r'"(\w+)"', types)}
    known |= {error.code for error in list_errors()} | OWN_NAMES
    read = re.compile(r"\.([a-z]+(?:_[a-z0-9]+)+)\b|[{,]\s*([a-z]+(?:_[a-z0-9]+)+)\s*[:,}=]")
    found = {
        (path.name, first or second)
        for path in (STATIC / "js").rglob("*.js")
        for first, second in read.findall(COMMENT.sub("", path.read_text("utf-8")))
    }

    assert len(found) > 200
    assert sorted(each for each in found if each[1] not in known) == []


def test_a_type_says_what_may_be_missing_what_may_be_null_and_what_may_be_chosen() -> None:
    seat = {
        "type": "object",
        "description": "One entry.",
        "required": ["number", "model"],
        "properties": {
            "number": {"type": "integer"},
            "model": {"anyOf": [{"$ref": "#/components/schemas/Model"}, {"type": "null"}]},
            "state": {"enum": ["free", "taken"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "counts": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }

    written = openapi_types.write_types({"components": {"schemas": {"Seat": seat}}})

    assert written.removeprefix(openapi_types.HEAD) == (
        "\n/** One entry. */\nexport interface Seat {\n  number: number;\n  model: Model | null;\n"
        '  state?: "free" | "taken";\n  tags?: Array<string>;\n'
        "  counts?: Record<string, number>;\n}\n"
    )
