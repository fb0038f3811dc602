"""The API against its own description: whatever is sent, it answers as it says, and to whom."""

from __future__ import annotations

import asyncio
import copy
import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode, checks
from schemathesis.core.result import Ok

from dialectic.api.server import open_server
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.api_description import load_description
from tests.database.job_table import database_of_a_module
from tests.scenario.api_in_process import Api, open_api
from tests.waiting import PATIENCE_S

SCHEMA = schemathesis.openapi.from_dict(copy.deepcopy(load_description()))
# A stream without an end is tried elsewhere.
LASTING = {"follow_events"}
OPERATIONS: list[Any] = [
    found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok) and found.ok().definition.raw["operationId"] not in LASTING
]
KEPT = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
# A few in every run; `make fuzz` sends many.
EXAMPLES = int(os.environ.get("API_EXAMPLES", "2"))
bounded = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """A server on a port, with two tenants, and the ids of what the first one has."""

    url: str
    anna: dict[str, str]
    ben: dict[str, str]
    ids: dict[str, str]


async def fill(api: Api) -> dict[str, str]:
    session = await api.anna.make_session()
    path = f"/sessions/{session['id']}"
    await api.anna.post(f"{path}/generate")
    await api.work(api.anna, session["id"])
    (contribution,) = (await api.anna.get(f"{path}/contributions"))["items"]
    document = (await api.anna.get(f"{path}/documents"))["items"][0]
    wish = {"message": "Hi.", "model": "offline/skeptic"}
    reply = await api.anna.post("/chat", wish)
    return {
        "project_id": session["project_id"],
        "session_id": session["id"],
        "contribution_id": contribution["id"],
        "document_id": document["id"],
        "chat_id": reply["chat_id"],
        "name": "standard",
    }


@pytest.fixture(scope="module")
def standing(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standing]:
    home = tmp_path_factory.mktemp("home")
    told: queue.Queue[Any] = queue.Queue()

    async def stand(address: Address) -> None:
        leave, loop = asyncio.Event(), asyncio.get_running_loop()
        async with open_api(address, home) as api:
            ids = await fill(api)
            hub = api.hub
            async with open_server(api.app, hub, host="127.0.0.1", port=0) as running:
                anna, ben = (
                    {"Authorization": f"Bearer {user.token}"} for user in (api.anna, api.ben)
                )
                told.put((Standing(running.url, anna, ben, ids), loop, leave))
                await leave.wait()

    def run(address: Address) -> None:
        try:
            asyncio.run(stand(address))
        except BaseException as error:
            told.put(error)
            raise

    with database_of_a_module(server, template) as address:
        thread = threading.Thread(target=run, args=(address,))
        thread.start()
        found = told.get(timeout=PATIENCE_S)
        if isinstance(found, BaseException):
            raise found
        made, loop, leave = found
        yield made
        loop.call_soon_threadsafe(leave.set)
        thread.join(PATIENCE_S)


def name(operation: Any) -> str:
    return str(operation.definition.raw["operationId"])


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name)
def test_an_operation_answers_as_it_is_described_and_only_to_whom_it_belongs(
    standing: Standing, operation: Any, mode: GenerationMode
) -> None:
    parameters = {one.name for one in operation.path_parameters}
    known = {key: value for key, value in standing.ids.items() if key in parameters}
    # What is wrong stands elsewhere than in the path, so that it is met.
    fixed = known if len(known) == len(parameters) else {}
    unasked = set(standing.ids.values()) - set(known.values()) - {"standard"}

    @bounded
    @hypothesis.given(case=operation.as_strategy(mode, path_parameters=fixed or None))
    def meet(case: Any) -> None:
        is_deletion = operation.method.upper() == "DELETE"
        for headers in (standing.ben,) if is_deletion else (standing.anna, standing.ben):
            answer = case.call(base_url=standing.url, headers=headers)
            case.validate_response(answer, checks=KEPT)
            if headers is standing.ben and known.keys() - {"name"}:
                assert 400 <= answer.status_code < 500, answer.status_code
                assert not [theirs for theirs in unasked if theirs in answer.text]

    try:
        meet()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "what is right can always be sent"
