"""Every call of the client is a route of the API."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints
from uuid import UUID

from dialectic.api.app import PREFIX
from dialectic.client import account, projects, sessions
from dialectic.client.call import Call
from dialectic.contract.base import RequestBody
from dialectic.contract.sessions import QuoteRequest
from tests.api_description import load_description

NOUNS = (account, projects, sessions)
ID = UUID(int=0)
WORDS = {
    "model": "offline/skeptic",
    "kind": "reference_documents",
    "status": "Current",
    "amount": "1",
    "action": "retry",
}


def list_builders() -> list[Callable[..., Call[Any]]]:
    return [
        thing
        for noun in NOUNS
        for name, thing in vars(noun).items()
        if inspect.isfunction(thing)
        and thing.__module__ == noun.__name__
        and not name.startswith("_")
    ]


def build_argument(name: str, kind: Any) -> object:
    """Build a value that a call accepts in the place of a parameter."""
    if kind is UUID:
        return ID
    if kind is int:
        return 1
    if kind is QuoteRequest:
        return QuoteRequest(prompt="A village hall.")
    if isinstance(kind, type) and issubclass(kind, RequestBody):
        return kind.model_construct()
    return {1: True} if name == "steps" else WORDS.get(name, "thesis")


def read_route(build: Callable[..., Call[Any]]) -> tuple[str, str]:
    hints = get_type_hints(build)
    needed = [
        one
        for one in inspect.signature(build).parameters.values()
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    values = {one.name: build_argument(one.name, hints[one.name]) for one in needed}
    call = build(**values)
    path = re.sub(rf"/({ID}|thesis|1)(?=/|$)", "/{}", call.path)
    return call.method, path


def test_every_call_is_a_route_that_is_described() -> None:
    routes = {
        (method.upper(), re.sub(r"{\w+}", "{}", path.removeprefix(PREFIX)))
        for path, methods in load_description()["paths"].items()
        for method in methods
    }
    asked = {read_route(build) for build in list_builders()}

    assert len(asked) > 40
    assert asked <= routes
