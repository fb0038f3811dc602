"""The client knows what the API answers, all of it and nothing else."""

from __future__ import annotations

import re

from dialectic.api.app import PREFIX
from dialectic.client import account, acting, chats, contributions, projects, sessions
from tests.api_description import load_description
from tests.cases import each_case

DESCRIPTION = load_description()
SCHEMAS = DESCRIPTION["components"]["schemas"]
# What the API calls by another name than the client does.
NAMES = {"Kept": "FeedbackView"}


def name_schema(model: str) -> str:
    return NAMES.get(model, model if model.endswith("Line") else f"{model}View")


NOUNS = (account, acting, chats, contributions, projects, sessions)
OWN = {
    name: thing
    for noun in NOUNS
    for name, thing in vars(noun).items()
    if getattr(thing, "__module__", "") == noun.__name__ and not name.startswith("_")
}
KINDS = {name: name_schema(name) for name, kind in OWN.items() if isinstance(kind, type)}
KINDS["FileLine"] = "FileView"


@each_case("name", KINDS)
def test_a_model_has_the_fields_that_are_described(name: str) -> None:
    described = set(SCHEMAS[KINDS[name]]["properties"])

    assert set(OWN[name].model_fields) == described


def test_every_call_is_a_route_that_is_described() -> None:
    routes = {
        (method.upper(), re.sub(r"{\w+}", "{}", path.removeprefix(PREFIX)))
        for path, methods in DESCRIPTION["paths"].items()
        for method in methods
    }
    asked = set()
    for build in OWN.values():
        if not isinstance(build, type):
            asked.update(read_routes(build))

    assert asked
    assert asked <= routes


def read_routes(build: object) -> set[tuple[str, str]]:
    """Build a call with words in the place of everything it needs, if it is a call."""
    import inspect

    needed = [
        one
        for one in inspect.signature(build).parameters.values()  # type: ignore[arg-type]
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    positional = ["0" for one in needed if one.kind is not one.KEYWORD_ONLY]
    named = {one.name: None for one in needed if one.kind is one.KEYWORD_ONLY}
    call = build(*positional, **named)  # type: ignore[operator]
    return {(call.method, re.sub(r"/0(?=/|$)", "/{}", call.path))}
