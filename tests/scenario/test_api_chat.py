"""Chat through the API: plain, streamed, paid for, continued, rewound, never asked twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from dialectic.api.server import open_server
from dialectic.app.live_answers import LiveAnswer
from dialectic.core.sse import EventParser
from dialectic.db.pool import Address
from dialectic.ledger import audit
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic_simulator import Simulator, open_simulator
from tests.database.job_table import database_of_a_module
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.paid_models import MODELS, TEXT, WRITER, configure
from tests.waiting import PATIENCE_S

SCRIPT: dict[str, Any] = {
    "keep_bodies": True,
    "models": MODELS,
    "default": {"text": TEXT},
    "rules": [
        {"contains": "Fail.", "fault": "500_server"},
        {"contains": "Wait.", "text": TEXT, "gate": "door"},
        {"contains": "Wait, and fail.", "gate": "door", "fault": "500_server"},
        {"contains": "At length.", "text": "word " * 3_000},
    ],
}


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with open_simulator(SCRIPT) as running:
        yield running


@asynccontextmanager
async def open_paid(
    shared: Address, simulator: Simulator, home: Path, **wishes: Any
) -> AsyncIterator[Api]:
    """Open the API with models that cost money, which anna has."""
    settings = configure(home, simulator, {"sim": None})
    catalog = build_catalog(settings)
    async with open_api(shared, home, catalog, endpoints=settings.endpoints, **wishes) as opened:
        await opened.fund(opened.anna)
        yield opened
    await catalog.close()


@pytest.fixture
async def api(shared: Address, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_paid(shared, simulator, tmp_path / "home") as opened:
        yield opened


async def find_breaches(api: Api) -> list[Any]:
    return list(await audit.verify_tenant(api.engine.db, api.anna.account.tenant_id))


def build_wish(message: str = "Name a bakery.", **more: Any) -> dict[str, Any]:
    return {"message": message, "model": WRITER, **more}


def parse_events(text: str) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, json.loads(event.data)) for event in EventParser().feed(text.encode())]


async def test_a_question_is_answered_saved_and_paid_for(api: Api, simulator: Simulator) -> None:
    wish = build_wish(systemInstruction="Be brief.")
    reply = await api.anna.post("/chat", wish)
    assert (reply["content"], reply["finish_reason"], reply["incomplete"]) == (TEXT, "stop", False)
    assert reply["usage"]["calls"] == len(simulator.log.calls) == 1
    chat = await api.anna.get(f"/chats/{reply['chat_id']}")
    assert chat["system_instruction"] == "Be brief."
    assert [one["content"] for one in chat["messages"]] == ["Name a bakery.", TEXT]
    (listed,) = (await api.anna.get("/chats"))["items"]
    assert (listed["id"], listed["messages"]) == (reply["chat_id"], 2)
    assert await find_breaches(api) == []
    check_problem(await api.ben.client.get(f"/chats/{reply['chat_id']}"), 404, "not_found")


async def test_an_answer_is_streamed_piece_by_piece_and_then_told_whole(api: Api) -> None:
    answer = await api.anna.client.post("/chat", json=build_wish(stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    *deltas, (last, reply) = parse_events(answer.text)
    assert {name for name, _ in deltas} == {"delta"}
    assert "".join(data["text"] for _, data in deltas) == reply["content"] == TEXT
    assert last == "reply"


async def test_a_streamed_answer_that_is_told_again_says_so(api: Api, simulator: Simulator) -> None:
    wish, named = build_wish(stream=True), {"Idempotency-Key": str(uuid4())}
    first, again = [await api.anna.client.post("/chat", json=wish, headers=named) for _ in range(2)]
    assert len(simulator.log.calls) == 1
    assert parse_events(again.text) == parse_events(first.text)[-1:]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("message", "ends_with"), [("Wait.", "reply"), ("Wait, and fail.", "problem")]
)
async def test_a_model_that_thinks_for_long_is_not_a_dead_connection(
    shared: Address, simulator: Simulator, tmp_path: Path, message: str, ends_with: str
) -> None:
    simulator.hold("door")
    wish = build_wish(message, stream=True)
    async with open_paid(shared, simulator, tmp_path / "home", ping_s=0.05) as api:
        headers = {"Authorization": f"Bearer {api.anna.token}"}
        async with (
            open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as client,
            client.stream("POST", f"{running.url}/api/v1/chat", json=wish) as answer,
        ):
            lines = answer.aiter_lines()
            assert [await anext(lines) for _ in range(4)] == [": still here", ""] * 2
            simulator.release("door")
            told = parse_events("".join([f"{line}\n" async for line in lines]))
        assert (answer.status_code, told[-1][0]) == (200, ends_with)
        assert await find_breaches(api) == []


async def test_at_the_limit_an_answer_is_incomplete_and_continued_on_request(
    api: Api, simulator: Simulator
) -> None:
    wish = build_wish("At length.", max_output_tokens=100)
    one = await api.anna.post("/chat", wish)
    assert (one["finish_reason"], one["incomplete"], one["usage"]["calls"]) == ("length", True, 1)
    five = await api.anna.post("/chat", {**wish, "continue_until_complete": True})
    assert (five["finish_reason"], five["incomplete"], five["usage"]["calls"]) == (
        "length",
        True,
        5,
    )
    assert await find_breaches(api) == []


@pytest.mark.parametrize("stream", [False, True])
async def test_what_fails_is_a_problem_and_leaves_nothing_behind(
    api: Api, simulator: Simulator, stream: bool
) -> None:
    async def ask(user: ApiUser, message: str, **more: Any) -> Any:
        wish = build_wish(message, stream=stream, **more)
        return await user.client.post("/chat", json=wish)

    check_problem(await ask(api.anna, "Fail."), 502, "provider_transient")
    poor = check_problem(await ask(api.ben, "Name a bakery."), 402, "insufficient_funds")
    assert poor["remedy"] == {"action": "top_up", "is_play": False}
    calls = len(simulator.log.calls)
    check_problem(await ask(api.anna, "word " * 120_000), 413, "context_window_exceeded")
    check_problem(await ask(api.anna, "Hi.", chat_id=str(uuid4())), 404, "not_found")
    check_problem(await ask(api.anna, "Hi.", model="sim/nobody"), 422, "unknown_model")
    check_problem(await ask(api.anna, "\u200b"), 400, "invalid_request")
    check_problem(await ask(api.anna, "Hi.", system_prompt_id=str(uuid4())), 404, "not_found")
    assert len(simulator.log.calls) == calls
    assert (await api.anna.get("/chats"))["items"] == []
    assert await find_breaches(api) == []


async def test_a_message_is_sent_again_and_what_followed_is_rewound(
    api: Api, simulator: Simulator
) -> None:
    first = await api.anna.post("/chat", build_wish("First."))
    chat_id = first["chat_id"]
    second = await api.anna.post("/chat", build_wish("Second.", chat_id=chat_id))
    wish = build_wish("Instead.", chat_id=chat_id, rewind_from_message_id=second["question_id"])
    await api.anna.post("/chat", wish)
    body = simulator.log.calls[-1].body
    assert body is not None
    assert [one["content"] for one in body["messages"]] == ["First.", TEXT, "Instead."]
    thread = (await api.anna.get(f"/chats/{chat_id}"))["messages"]
    assert [one["content"] for one in thread] == ["First.", TEXT, "Instead.", TEXT]
    path = f"/chats/{chat_id}/rewind"
    left = await api.anna.post(path, {"message_id": thread[2]["id"]})
    assert [one["id"] for one in left["messages"]] == [one["id"] for one in thread[:2]]
    gone = await api.anna.client.post(path, json={"message_id": thread[2]["id"]})
    check_problem(gone, 404, "not_found")
    answer = build_wish("Mine.", chat_id=chat_id, rewind_from_message_id=first["message_id"])
    check_problem(await api.anna.client.post("/chat", json=answer), 400, "invalid_request")


async def test_a_chat_is_renamed_becomes_a_project_and_is_deleted(api: Api) -> None:
    reply = await api.anna.post("/chat", build_wish())
    path = f"/chats/{reply['chat_id']}"
    renamed = await api.anna.client.patch(path, json={"title": " Bakeries\n\0"})
    assert renamed.json()["title"] == "Bakeries"
    blank = await api.anna.client.patch(path, json={"title": "  "})
    check_problem(blank, 400, "invalid_request")
    whole = await api.anna.post(f"{path}/project", {"name": "Bakery"})
    assert whole["prompt"] == f"## Question\n\nName a bakery.\n\n## Answer\n\n{TEXT}\n"
    part = await api.anna.post(f"{path}/project", {"message_ids": [reply["message_id"]]})
    assert (part["prompt"], part["name"]) == (TEXT, "Bakeries")
    wrong = await api.anna.client.post(f"{path}/project", json={"message_ids": [str(uuid4())]})
    check_problem(wrong, 404, "not_found")
    assert (await api.anna.client.delete(path)).status_code == 204
    check_problem(await api.anna.client.get(path), 404, "not_found")


async def test_a_chat_that_is_deleted_while_a_model_thinks_is_gone_and_its_answer_paid_for(
    api: Api, simulator: Simulator
) -> None:
    chat_id = (await api.anna.post("/chat", build_wish()))["chat_id"]
    simulator.hold("door")
    asking = asyncio.create_task(
        api.anna.client.post("/chat", json=build_wish("Wait.", chat_id=chat_id))
    )
    await simulator.wait_arrived(2)
    assert (await api.anna.client.delete(f"/chats/{chat_id}")).status_code == 204
    simulator.release("door")
    check_problem(await asking, 404, "not_found")
    wallet = await api.anna.get("/wallet")
    assert wallet["money"]["held"] == "0"
    assert [one["type"] for one in (await api.anna.get("/wallet/transactions"))["items"]][:2] == [
        "usage",
        "usage",
    ]
    assert await find_breaches(api) == []


async def test_a_client_that_leaves_during_a_call_is_answered_later_and_the_model_asked_once(
    api: Api, simulator: Simulator
) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    simulator.hold("door")
    asking = asyncio.create_task(
        api.anna.client.post("/chat", json=build_wish("Wait."), headers=key)
    )
    await simulator.wait_arrived(1)
    asking.cancel()
    await asyncio.wait({asking})
    simulator.release("door")
    reply = await api.anna.client.post("/chat", json=build_wish("Wait."), headers=key)
    again = await api.anna.client.post("/chat", json=build_wish("Wait."), headers=key)
    assert reply.json() == again.json()
    assert reply.json()["content"] == TEXT
    assert again.headers["idempotency-replayed"] == "true"
    assert len(simulator.log.calls) == 1
    other = await api.anna.client.post("/chat", json=build_wish("Other."), headers=key)
    check_problem(other, 422, "idempotency_key_reused")
    assert await find_breaches(api) == []


# -- joining, branching, estimating ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "ends_with"), [("Wait.", "reply"), ("Wait, and fail.", "problem")]
)
async def test_an_answer_is_joined_after_the_asking_page_was_closed(
    shared: Address, simulator: Simulator, tmp_path: Path, message: str, ends_with: str
) -> None:
    async with open_paid(shared, simulator, tmp_path / "home", ping_s=0.05) as api:
        chat_id = (await api.anna.post("/chat", build_wish()))["chat_id"]
        path = f"/chats/{chat_id}"
        idle = await api.anna.client.get(f"{path}/stream")
        assert check_problem(idle, 409, "conflict")["reason"] == "no_answer_here"
        simulator.hold("door")
        wish = build_wish(message, chat_id=chat_id, stream=True)
        asking = asyncio.create_task(api.anna.client.post("/chat", json=wish))
        await simulator.wait_arrived(2)
        pending = (await api.anna.get(path))["pending"]
        assert (pending["question"], pending["model"]) == (message, WRITER)
        asking.cancel()
        await asyncio.wait({asking})
        check_problem(await api.ben.client.get(f"{path}/stream"), 404, "not_found")

        headers = {"Authorization": f"Bearer {api.anna.token}"}
        async with (
            open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as client,
            client.stream("GET", f"{running.url}/api/v1{path}/stream") as answer,
        ):
            lines = answer.aiter_lines()
            assert await anext(lines) == ": still here"
            simulator.release("door")
            told = parse_events("".join([f"{line}\n" async for line in lines]))
        assert (answer.headers["x-chat-id"], told[-1][0]) == (chat_id, ends_with)
        said = "".join(data["text"] for name, data in told if name == "delta")
        assert said == (TEXT if ends_with == "reply" else "")
        chat = await api.anna.get(path)
        assert chat["pending"] is None
        assert len(chat["messages"]) == (4 if ends_with == "reply" else 2)
        assert await find_breaches(api) == []


async def test_who_joins_late_reads_an_answer_from_its_first_word() -> None:
    live = LiveAnswer("Name a bakery.", WRITER)
    live.add("The old ")
    live.add("mill")
    late = live.read()
    assert await anext(late) == "The old mill"
    waiting = asyncio.ensure_future(anext(late))
    await asyncio.sleep(0)
    live.add(".")
    assert await waiting == "."
    live.end(None, None)
    assert [piece async for piece in late] == []
    assert [piece async for piece in live.read()] == ["The old mill."]


async def test_a_replaced_question_begins_a_branch_and_the_old_one_can_be_continued(
    api: Api, simulator: Simulator
) -> None:
    first = await api.anna.post("/chat", build_wish("First."))
    chat_id = first["chat_id"]
    second = await api.anna.post("/chat", build_wish("Second.", chat_id=chat_id))
    wish = build_wish("Instead.", chat_id=chat_id, rewind_from_message_id=second["question_id"])
    instead = await api.anna.post("/chat", wish)
    assert (await api.anna.get(f"/chats/{chat_id}"))["branches"] == []
    chat = await api.anna.get(f"/chats/{chat_id}", with_branches=True)
    assert [one["content"] for one in chat["branches"]] == ["Second.", TEXT]
    starts = [one["previous_id"] for one in (chat["branches"][0], chat["messages"][2])]
    assert starts == [first["message_id"]] * 2

    path = f"/chats/{chat_id}/branch"
    back = await api.anna.post(path, {"message_id": second["question_id"]})
    assert [one["content"] for one in back["messages"]] == ["First.", TEXT, "Second.", TEXT]
    await api.anna.post("/chat", build_wish("Third.", chat_id=chat_id))
    body = simulator.log.calls[-1].body
    assert body is not None
    said = [one["content"] for one in body["messages"]]
    assert said == ["First.", TEXT, "Second.", TEXT, "Third."]
    there = await api.anna.post(path, {"message_id": instead["message_id"]})
    assert [one["content"] for one in there["messages"]] == ["First.", TEXT, "Instead.", TEXT]
    again = await api.anna.post(path, {"message_id": second["question_id"]})
    assert len(again["messages"]) == 6, "the newest end of the branch"
    missing = await api.anna.client.post(path, json={"message_id": str(uuid4())})
    assert check_problem(missing, 404, "not_found")["reason"] == "no_message"


async def test_the_cost_of_a_question_is_estimated_without_asking_it(
    api: Api, simulator: Simulator
) -> None:
    short = await api.anna.post("/chat/estimate", build_wish())
    long = await api.anna.post("/chat/estimate", build_wish("Name a bakery. " * 100))
    whole = await api.anna.post("/chat/estimate", build_wish(continue_until_complete=True))
    assert 0 < short["input_tokens"] < long["input_tokens"]
    assert not short["is_play"]
    assert 0 < float(short["expected"]) < float(short["worst"]) < float(whole["worst"])
    assert simulator.log.calls == []
    assert (await api.anna.get("/chats"))["items"] == []
    reply = await api.anna.post("/chat", build_wish())
    (paid,) = [
        one
        for one in (await api.anna.get("/wallet/transactions"))["items"]
        if one["type"] == "usage"
    ]
    assert float(paid["amount"]) <= float(short["worst"])
    empty = await api.anna.client.post("/chat/estimate", json=build_wish(" "))
    check_problem(empty, 400, "invalid_request")
    foreign = build_wish(chat_id=reply["chat_id"])
    check_problem(await api.ben.client.post("/chat/estimate", json=foreign), 404, "not_found")
