"""Work through the API: a session from its start to its export, and what a person does in it."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.app import contributions, feedback, sessions
from dialectic.app.transaction import Transaction
from dialectic.contract.sessions import RESPONSES_MAX
from dialectic.core.access import Scope
from dialectic.db.pool import Connection
from dialectic.postgres import embedded
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.finished_session import MODELS, FinishedSession, play_first_stage
from tests.waiting import until_someone_waits


@pytest.fixture(scope="module")
def finished_session(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FinishedSession]:
    with play_first_stage(server, template, tmp_path_factory.mktemp("house")) as finished:
        yield finished


@pytest.fixture
async def api(finished_session: FinishedSession) -> AsyncIterator[Api]:
    async with open_api(finished_session.address, finished_session.home) as opened:
        yield opened


@pytest.fixture
async def anna(api: Api, finished_session: FinishedSession) -> AsyncIterator[ApiUser]:
    user = api.come_back(finished_session.account, finished_session.token)
    async with user.client:
        yield user


async def test_what_was_written_is_listed_read_and_not_sent_again_unchanged(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    path = f"/sessions/{finished_session.session['id']}"
    lines = (await anna.get(f"{path}/contributions"))["items"]
    assert {line["model"] for line in lines} == set(MODELS)
    assert [line["stage"] for line in lines] == ["thesis", "thesis"]
    assert (await anna.get(f"{path}/contributions", stage="antithesis"))["items"] == []
    first = await anna.client.get(f"/contributions/{lines[0]['id']}")
    etag = first.headers["etag"]
    assert first.json()["content"]
    for sent in (etag, f'"other", W/{etag}', "*"):
        again = await anna.client.get(
            f"/contributions/{lines[0]['id']}", headers={"If-None-Match": sent}
        )
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    text = await anna.client.get(f"/contributions/{lines[0]['id']}/content")
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.text == first.json()["content"]


async def test_documents_are_listed_and_read_with_their_state(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    path = f"/sessions/{finished_session.session['id']}/documents"
    documents = (await anna.get(path))["items"]
    kinds = {document["kind"] for document in documents}
    assert "seed_prompt" in kinds
    assert any(document["document_key"] for document in documents)
    one = documents[-1]
    read = await anna.client.get(f"/documents/{one['id']}")
    assert read.json()["content"]
    etag = {"If-None-Match": read.headers["etag"]}
    assert (await anna.client.get(f"/documents/{one['id']}", headers=etag)).status_code == 304
    text = await anna.client.get(f"/documents/{one['id']}/content")
    assert text.text == read.json()["content"]


async def test_jobs_costs_and_money_are_told(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    path = f"/sessions/{finished_session.session['id']}"
    page = await anna.get(f"{path}/jobs", limit=1)
    seen = list(page["items"])
    while page["next_cursor"]:
        page = await anna.get(f"{path}/jobs", limit=1, cursor=page["next_cursor"])
        seen += page["items"]
    assert len(seen) == len({job["id"] for job in seen}) >= 2
    assert {job["status"] for job in seen} == {"completed"}
    costs = (await anna.get(f"{path}/costs"))["items"]
    assert {cost["model"] for cost in costs} == set(MODELS)
    wallet = await anna.get("/wallet")
    assert wallet["play_money"]["held"] == "0"
    first = await anna.get("/wallet/transactions", limit=1)
    second = await anna.get("/wallet/transactions", limit=1, cursor=first["next_cursor"])
    assert first["items"][0]["id"] > second["items"][0]["id"]
    assert first["items"][0]["balance_after"] == wallet["play_money"]["balance"]
    spending = (await anna.get("/wallet/spending", days=2))["items"]
    assert {line["model"] for line in spending} == set(MODELS)
    charged = sum(Decimal(cost["charged"]) for cost in costs)
    assert sum(Decimal(line["charged"]) for line in spending) == charged
    assert sum(line["calls"] for line in spending) == sum(cost["calls"] for cost in costs)


async def test_a_person_edits_what_they_have_seen_and_nothing_newer(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    lines = (await anna.get(f"/sessions/{finished_session.session['id']}/contributions"))["items"]
    path = f"/contributions/{lines[0]['id']}"
    etag = (await anna.client.get(path)).headers["etag"]
    wish = {"content": f"# Mine\n\nThat is how it is {uuid4()}."}
    edited = await anna.client.put(path, json=wish, headers={"If-Match": etag})
    assert edited.status_code == 200
    assert (edited.json()["is_by_user"], edited.json()["content"]) == (True, wish["content"])
    late = await anna.client.put(path, json={"content": "Other."}, headers={"If-Match": etag})
    check_problem(late, 412, "precondition_failed")
    same = await anna.client.put(path, json=wish)
    check_problem(same, 409, "conflict")
    versions = (await anna.get(f"{path}/versions"))["items"]
    assert [one["is_latest"] for one in versions[-2:]] == [False, True]


async def test_of_two_who_edit_what_both_have_seen_one_is_told(
    anna: ApiUser, api: Api, finished_session: FinishedSession
) -> None:
    lines = (await anna.get(f"/sessions/{finished_session.session['id']}/contributions"))["items"]
    path = f"/contributions/{lines[-1]['id']}"
    etag = (await anna.client.get(path)).headers["etag"]
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def edit(connection: Connection) -> None:
        tx = Transaction(api.engine, finished_session.account, connection)
        await contributions.edit(tx, UUID(lines[-1]["id"]), "The first.")
        begun.set()
        await may_end.wait()

    first = asyncio.create_task(api.engine.db.transact(finished_session.account.tenant_id, edit))
    await begun.wait()
    second = asyncio.create_task(
        anna.client.put(path, json={"content": "The second."}, headers={"If-Match": etag})
    )
    await until_waited_for(finished_session)
    may_end.set()
    await first
    check_problem(await second, 412, "precondition_failed")
    newest = (await anna.get(f"{path}/versions"))["items"][-1]
    assert (await anna.get(f"/contributions/{newest['id']}"))["content"] == "The first."


async def until_waited_for(finished_session: FinishedSession) -> None:
    admin = await asyncpg.connect(finished_session.address.url)
    try:
        await until_someone_waits(admin)
    finally:
        await admin.close()


async def test_of_two_who_say_something_at_once_both_are_kept(
    anna: ApiUser, api: Api, finished_session: FinishedSession
) -> None:
    session_id = UUID(finished_session.session["id"])
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def speak(connection: Connection) -> None:
        said = feedback.Comment("thesis", "The first to speak.")
        tx = Transaction(api.engine, finished_session.account, connection)
        await feedback.save(tx, session_id, [said])
        begun.set()
        await may_end.wait()

    first = asyncio.create_task(api.engine.db.transact(finished_session.account.tenant_id, speak))
    await begun.wait()
    wish = {"stage": "thesis", "text": "The second to speak."}
    second = asyncio.create_task(anna.post(f"/sessions/{session_id}/feedback", wish))
    await until_waited_for(finished_session)
    may_end.set()
    await first
    await second
    documents = (await anna.get(f"/sessions/{session_id}/documents"))["items"]
    (kept,) = [one for one in documents if one["kind"] == "user_feedback"]
    text = (await anna.client.get(f"/documents/{kept['id']}/content")).text
    assert "The first to speak." in text
    assert "The second to speak." in text


async def test_a_project_is_not_deleted_while_its_work_begins(
    api: Api, finished_session: FinishedSession
) -> None:
    session = await api.anna.make_session()
    account, begun, may_end = api.anna.account, asyncio.Event(), asyncio.Event()

    async def generate(connection: Connection) -> None:
        tx = Transaction(api.engine, account, connection)
        await sessions.generate(tx, UUID(session["id"]))
        begun.set()
        await may_end.wait()

    working = asyncio.create_task(api.engine.db.transact(account.tenant_id, generate))
    await begun.wait()
    deleting = asyncio.create_task(api.anna.client.delete(f"/projects/{session['project_id']}"))
    await until_waited_for(finished_session)
    may_end.set()
    await working
    check_problem(await deleting, 409, "conflict")
    assert (await api.anna.get(f"/sessions/{session['id']}"))["status"] == "generating_thesis"


async def test_an_edit_names_the_state_that_it_leaves(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    lines = (await anna.get(f"/sessions/{finished_session.session['id']}/contributions"))["items"]
    wish = {"content": f"Mine {uuid4()}."}
    edited = await anna.client.put(f"/contributions/{lines[0]['id']}", json=wish)
    read = await anna.client.get(f"/contributions/{edited.json()['id']}")
    assert edited.headers["etag"] == read.headers["etag"]


async def test_feedback_and_ratings_are_kept(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    session_id = finished_session.session["id"]
    lines = (await anna.get(f"/sessions/{session_id}/contributions"))["items"]
    said = {"stage": "thesis", "text": "Think of winter."}
    kept = await anna.post(f"/sessions/{session_id}/feedback", said)
    rated = await anna.post(f"/contributions/{lines[0]['id']}/rating", {"rating": 4})
    assert kept["path"] == rated["path"]
    feedback = [
        one
        for one in (await anna.get(f"/sessions/{session_id}/documents"))["items"]
        if one["kind"] == "user_feedback"
    ]
    text = (await anna.client.get(f"/documents/{feedback[0]['id']}/content")).text
    assert "Think of winter." in text
    assert "rated 4 of 5" in text
    for wish, status, code in (
        ({"stage": "antithesis", "text": "Too early."}, 409, "conflict"),
        ({"stage": "nowhere", "text": "Where?"}, 404, "not_found"),
        ({"stage": "thesis", "text": "\u200b"}, 400, "invalid_request"),
    ):
        answer = await anna.client.post(f"/sessions/{session_id}/feedback", json=wish)
        check_problem(answer, status, code)


async def test_a_session_is_paused_resumed_and_cancelled(api: Api) -> None:
    session = await api.anna.make_session()
    path = f"/sessions/{session['id']}"
    assert (await api.anna.post(f"{path}/generate"))["job_ids"]
    assert (await api.anna.post(f"{path}/pause"))["status"] == "paused"
    check_problem(await api.anna.client.post(f"{path}/generate"), 409, "conflict")
    check_problem(
        await api.anna.client.delete(f"/projects/{session['project_id']}"), 409, "conflict"
    )
    resumed = await api.anna.post(f"{path}/resume", {"budget": 3, "approve_spend": True})
    assert (resumed["status"], resumed["budget"]) == ("generating_thesis", "3")
    check_problem(await api.anna.client.post(f"{path}/retry"), 409, "conflict")
    check_problem(await api.anna.client.post(f"{path}/iterate"), 409, "conflict")
    wish = {"models": ["offline/architect"]}
    check_problem(await api.anna.client.patch(path, json=wish), 409, "conflict")
    assert (await api.anna.post(f"{path}/cancel"))["status"] == "cancelled"
    check_problem(await api.anna.client.post(f"{path}/resume"), 409, "conflict")


async def test_one_job_of_a_session_is_paused_resumed_and_cancelled(api: Api) -> None:
    session = await api.anna.make_session(models=MODELS, until="thesis")
    path = f"/sessions/{session['id']}"
    started = await api.anna.client.post(f"{path}/generate")
    one, other = (f"{path}/jobs/{job_id}" for job_id in started.json()["job_ids"])

    async def list_statuses() -> set[str]:
        return {job["status"] for job in (await api.anna.get(f"{path}/jobs"))["items"]}

    assert (await api.anna.client.post(f"{one}/pause")).status_code == 200
    assert await list_statuses() == {"paused", "pending"}
    approved = {"approve_spend": True}
    assert (await api.anna.client.post(f"{one}/resume", json=approved)).status_code == 202
    assert await list_statuses() == {"pending"}
    assert (await api.anna.client.post(f"{other}/cancel")).status_code == 200
    check_problem(await api.anna.client.post(f"{other}/pause"), 409, "conflict")
    check_problem(await api.ben.client.post(f"{one}/cancel"), 404, "not_found")
    assert await list_statuses() == {"pending", "cancelled"}


async def test_what_a_person_says_is_submitted_with_the_start_of_the_next_stage(
    anna: ApiUser, api: Api, finished_session: FinishedSession
) -> None:
    exported = await anna.client.get(f"/projects/{finished_session.session['project_id']}/export")
    copied = await anna.client.post(
        "/projects/import", content=exported.content, headers={"Content-Type": "application/zip"}
    )
    assert copied.status_code == 201, copied.text
    (session_id,) = copied.json()["session_ids"]
    lines = (await anna.get(f"/sessions/{session_id}/contributions"))["items"]
    response = {"contribution_id": lines[0]["id"], "text": "More about snow.", "rating": 2}
    path = f"/sessions/{session_id}/submit"
    wrong = {"responses": [{"contribution_id": lines[0]["id"]}]}
    check_problem(await anna.client.post(path, json=wrong), 422, "validation_failed")
    elsewhere = {"contribution_id": finished_session.session["id"], "rating": 1}
    check_problem(await anna.client.post(path, json={"responses": [elsewhere]}), 404, "not_found")
    theirs = (await anna.get(f"/sessions/{finished_session.session['id']}/contributions"))["items"]
    other = {"contribution_id": theirs[0]["id"], "rating": 1}
    refused = await anna.client.post(path, json={"responses": [other]})
    check_problem(refused, 400, "invalid_request")
    said = {"responses": [response] * RESPONSES_MAX, "feedback": "Go on."}
    started = await anna.client.post(path, json=said)
    assert started.status_code == 202, started.text
    assert started.json()["status"] == "generating_antithesis"
    again = await anna.client.post(path, json={"feedback": "Said too late."})
    check_problem(again, 409, "conflict")
    documents = (await anna.get(f"/sessions/{session_id}/documents"))["items"]
    (feedback,) = [one for one in documents if one["kind"] == "user_feedback"]
    text = (await anna.client.get(f"/documents/{feedback['id']}/content")).text
    assert "More about snow." in text
    assert "Go on." in text
    assert "too late" not in text


async def test_a_project_is_exported_and_taken_in_once_for_each_key(
    anna: ApiUser, api: Api, finished_session: FinishedSession
) -> None:
    answer = await anna.client.get(f"/projects/{finished_session.session['project_id']}/export")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].endswith('.zip"')
    names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    assert "manifest.json" in {name.rsplit("/", 1)[-1] for name in names}
    files = {"file": ("p.zip", answer.content, "application/zip")}
    key = {"Idempotency-Key": str(uuid4())}
    taken = [
        await api.ben.client.post("/projects/import", files=files, headers=key) for _ in range(2)
    ]
    assert [one.status_code for one in taken] == [201, 201], taken[0].text
    assert taken[0].json() == taken[1].json()
    assert taken[1].headers["idempotency-replayed"] == "true"
    listed = (await api.ben.get("/projects"))["items"]
    assert [one["id"] for one in listed] == [taken[0].json()["project_id"]]
    finished = await anna.client.get(
        f"/projects/{finished_session.session['project_id']}/export", params={"finished": True}
    )
    headers = {"Content-Type": "application/zip"}
    refused = await api.ben.client.post(
        "/projects/import", content=finished.content, headers=headers
    )
    check_problem(refused, 422, "invalid_bundle")
    nonsense = await api.ben.client.post("/projects/import", content=b"PK", headers=headers)
    check_problem(nonsense, 422, "invalid_bundle")
    empty = await api.ben.client.post("/projects/import", files={"other": ("o", b"x")})
    check_problem(empty, 422, "validation_failed")


async def test_two_sessions_of_a_project_leave_the_plans_of_both(api: Api) -> None:
    anna = api.anna
    project = await anna.make_project()
    names: list[set[str]] = []
    session: dict[str, Any] = {}
    for _ in range(2):
        wish = {"models": ["offline/skeptic"]}
        session = await anna.post(f"/projects/{project['id']}/sessions", wish)
        await anna.post(f"/sessions/{session['id']}/generate")
        await api.work(anna, session["id"])
        answer = await anna.client.get(f"/projects/{project['id']}/export")
        paths = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
        names.append({path.rsplit("/", 1)[-1] for path in paths if "/Pending/" in path})
    first, both = names
    assert len(first) >= 2
    later = f"session-{session['id'][:8]}-"
    assert both == first | {later + name for name in first}


async def test_a_file_is_read_as_text_and_saved_nowhere(api: Api) -> None:
    user = api.anna
    files = {"file": ("Hall plans.md", b"\xef\xbb\xbf# Plans\n\nA hall.", "text/markdown")}
    read = await user.client.post("/uploads", files=files)
    assert read.status_code == 200
    told = {"name": "Hall plans.md", "kind": "markdown", "text": "# Plans\n\nA hall.", "notes": []}
    assert read.json() == told
    assert (await user.get("/projects"))["items"] == []
    picture = {"file": ("p.png", b"\x89PNG\r\n\x1a\n" + bytes(64), "image/png")}
    check_problem(await user.client.post("/uploads", files=picture), 422, "invalid_upload")
    plain = await user.client.post("/uploads", json={"file": "x"})
    check_problem(plain, 415, "unsupported_media_type")


async def test_files_become_prompts_and_resources(api: Api) -> None:
    user = api.anna
    files = {"file": ("Hall plans.md", b"\xef\xbb\xbf# Plans\n\nA hall.", "text/markdown")}
    made = await user.client.post("/projects/upload", files=files, data={"name": "Hall"})
    assert (made.status_code, made.json()["prompt"]) == (201, "# Plans\n\nA hall.")
    path = f"/projects/{made.json()['id']}/resources"
    given = await user.client.post(path, files=files, data={"kind": "reference_documents"})
    assert (given.status_code, given.json()["kind"]) == (201, "reference_documents")
    wish = {"kind": "success_criteria", "name": "Hall plans", "text": "It stands."}
    assert (await user.post(path, wish))["path"] != given.json()["path"]
    same_again = await user.client.post(path, files=files, data={"kind": "reference_documents"})
    assert same_again.json()["id"] != given.json()["id"]
    picture = {"file": ("p.png", b"\x89PNG\r\n\x1a\n" + bytes(64), "image/png")}
    refused = await user.client.post(path, files=picture, data={"kind": "reference_documents"})
    check_problem(refused, 422, "invalid_upload")
    wrong = await user.client.post(path, files=files, data={"kind": "secrets"})
    problem = check_problem(wrong, 422, "validation_failed")
    assert problem["errors"][0]["path"] == "/body/kind"
    found = await user.get(f"/projects/{made.json()['id']}/search", q="hall")
    assert {one["path"].rsplit("/", 1)[-1] for one in found["items"]} >= {"hall-plans.md"}


async def test_the_same_key_is_one_effect_and_another_body_is_refused(api: Api) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    wish = {"prompt": "A hall.", "name": "Once"}
    post = api.anna.client.post
    answers = await asyncio.gather(*(post("/projects", json=wish, headers=key) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    other = await post("/projects", json={**wish, "name": "Twice"}, headers=key)
    check_problem(other, 422, "idempotency_key_reused")
    assert len((await api.anna.get("/projects"))["items"]) == 1
    theirs = await api.ben.client.post("/projects", json=wish, headers=key)
    assert theirs.json()["id"] != answers[0].json()["id"]
    odd = await post("/projects", json=wish, headers={"Idempotency-Key": "x" * 256})
    check_problem(odd, 422, "validation_failed")


# What each operation on something is given, where it needs more than whose it is.
BODIES: dict[str, dict[str, Any]] = {
    "change_project": {"name": "Mine"},
    "add_resource": {"kind": "success_criteria", "name": "n", "text": "t"},
    "replace_plan_file": {"content": "Mine."},
    "move_plan_file": {"status": "Current"},
    "create_session": {"models": ["offline/skeptic"]},
    "change_session": {"budget": 1},
    "replace_seat": {"model": "offline/skeptic"},
    "submit_session": {"feedback": "Go on."},
    "give_feedback": {"stage": "thesis", "text": "Go on."},
    "edit_contribution": {"content": "Mine."},
    "rate_contribution": {"rating": 1},
    "change_feedback": {"text": "Mine."},
    "change_chat": {"title": "Mine"},
    "rewind_chat": {"message_id": str(uuid4())},
    "make_project_of_chat": {},
    "switch_branch": {"message_id": str(uuid4())},
    "tick_plan_steps": {"steps": {"1": True}},
    "rule_on_claim": {"verdict": "keep"},
    "rule_on_dissent": {"text": "The deposit is 30 euros."},
}
# What the state of things refuses to their owner, too.
REFUSED = {"join_answer", "price_job_retry", "price_continue"}
# What everybody has; and whom a tenant of one's own might have.
# Endpoints have names, not ids: tests/scenario/test_own_endpoints.py looks at theirs.
NOT_OWNED = {
    *("get_process", "outline_process", "test_model"),
    *("remove_member", "test_endpoint", "remove_endpoint"),
}


async def test_no_operation_finds_what_belongs_to_another_tenant(
    anna: ApiUser, api: Api, finished_session: FinishedSession
) -> None:
    ids = await list_ids(anna, finished_session)
    files = (await anna.get(f"/projects/{ids['project_id']}/files"))["items"]
    queries = {
        "search_project": {"q": "hall"},
        "compare_contributions": {"with": ids["contribution_id"]},
        "read_file": {"path": files[0]["path"]},
        "replace_plan_file": {"path": "Pending/mine.md"},
        "tick_plan_steps": {"path": "Pending/mine.md"},
        "delete_plan_file": {"path": "Pending/mine.md"},
        "move_plan_file": {"path": "Pending/mine.md"},
    }
    described = (await anna.get("/openapi.json"))["paths"]
    operations = [
        (method, path.removeprefix("/api/v1"), operation["operationId"])
        for path, methods in described.items()
        for method, operation in methods.items()
        if "{" in path and operation["operationId"] not in NOT_OWNED
    ]
    assert len(operations) > 40
    for method, path, name in operations:
        asked: dict[str, Any] = {"json": BODIES.get(name), "params": queries.get(name)}
        theirs = await api.ben.client.request(method, path.format(**ids), **asked)
        assert (theirs.status_code, theirs.json()["code"]) == (404, "not_found"), name
        # The session has ended with its first stage: it has neither turns, nor a plan, nor drafts.
        is_absent = name in ("get_session_plan", "get_draft")
        if method == "get" and "{chunk_id}" not in path and not is_absent:
            own = await anna.client.get(path.format(**ids), params=queries.get(name))
            assert own.is_success or (own.status_code == 409 and name in REFUSED), name


async def list_ids(user: ApiUser, finished_session: FinishedSession) -> dict[str, str]:
    """List ids of a guest's own, by what paths call them."""
    session_id = finished_session.session["id"]

    async def find(path: str) -> str:
        return str((await user.get(path))["items"][0]["id"])

    chat = await user.post("/chat", {"message": "Hi.", "model": MODELS[0]})
    project_id = finished_session.session["project_id"]
    resource = await user.post(f"/projects/{project_id}/resources", BODIES["add_resource"])
    told = await user.post(f"/sessions/{session_id}/feedback", BODIES["give_feedback"])
    shared = await user.post(f"/sessions/{session_id}/shares")
    return {
        "session_id": session_id,
        "claim_id": str(uuid4()),
        "dissent_id": str(uuid4()),
        "project_id": project_id,
        "resource_id": resource["id"],
        "feedback_id": told["ids"][0],
        "share_id": shared["id"],
        "contribution_id": await find(f"/sessions/{session_id}/contributions"),
        "document_id": await find(f"/sessions/{session_id}/documents"),
        "job_id": await find(f"/sessions/{session_id}/jobs"),
        "chat_id": chat["chat_id"],
        "token_id": await find("/tokens"),
        "chunk_id": str(uuid4()),
        "notification_id": "1",
        "seat": "1",
    }


@pytest.mark.parametrize(
    ("scope", "method", "path"),
    [
        (Scope.READ, "POST", "/projects"),
        (Scope.WRITE, "GET", "/projects"),
        (Scope.WRITE, "POST", "/sessions/{id}/generate"),
        (Scope.WRITE, "POST", "/chat"),
        (Scope.READ, "POST", "/projects/import"),
    ],
)
async def test_a_token_does_only_what_it_was_made_for(
    api: Api, scope: Scope, method: str, path: str
) -> None:
    user = await api.let_in(scopes={scope})
    async with user.client:
        wish = {"prompt": "A hall.", "message": "Hi.", "model": "offline/skeptic"}
        fields = ("prompt",) if path == "/projects" else ("message", "model")
        body = {key: wish[key] for key in fields} if method == "POST" else None
        answer = await user.client.request(method, path.format(id=uuid4()), json=body)
        check_problem(answer, 403, "forbidden")


async def test_everybody_learns_who_they_are_and_what_there_is(api: Api) -> None:
    me = await api.anna.get("/me")
    assert me["tenant_id"] == str(api.anna.account.tenant_id)
    assert [tenant["role"] for tenant in me["tenants"]] == ["owner"]
    models = (await api.anna.get("/models"))["items"]
    assert "offline/skeptic" in {model["name"] for model in models if model["is_usable"]}
    processes = (await api.anna.get("/processes"))["items"]
    assert {process["name"]: process["stages"][0] for process in processes} == {
        "digest": "reading",
        "quick": "thesis",
        "standard": "thesis",
    }
    assert (await api.anna.get("/processes/standard"))["definition"]["file"]
    check_problem(await api.anna.client.get("/processes/nothing"), 404, "not_found")


async def test_a_server_reports_its_health_and_names_no_user(api: Api) -> None:
    session = await api.anna.make_session()
    await api.anna.post(f"/sessions/{session['id']}/generate")
    async with api.connect() as client:
        assert (await client.get("http://house.test/healthz")).text == "ok\n"
        ready = await client.get("http://house.test/readyz")
        figures = (await client.get("http://house.test/metrics")).text
    assert ready.status_code in (200, 503)
    assert ready.json()["checks"]["database"] == "ok"
    assert ready.json()["checks"]["schema"] == "ok"
    assert 'dialectic_jobs{status="pending"} ' in figures
    assert 'route="/api/v1/sessions/{session_id}/generate",status="202"' in figures
    for secret in (session["id"], str(api.anna.account.tenant_id), api.anna.token):
        assert secret not in figures


async def test_tokens_are_made_shown_once_and_revoked(api: Api) -> None:
    wish = {"name": "laptop", "scopes": ["read"], "life_days": 7}
    made = await api.anna.post("/tokens", wish)
    listed = (await api.anna.get("/tokens"))["items"]
    assert made["id"] in {one["id"] for one in listed}
    assert made["token"] not in json.dumps(listed)
    async with api.connect(Authorization=f"Bearer {made['token']}") as client:
        assert (await client.get("/projects")).status_code == 200
        check_problem(await client.get("/tokens"), 403, "forbidden")
        gone = await api.anna.client.delete(f"/tokens/{made['id']}")
        assert gone.status_code == 204
        check_problem(await client.get("/projects"), 401, "token_invalid")
    theirs = await api.ben.client.delete(f"/tokens/{made['id']}")
    check_problem(theirs, 404, "not_found")


async def test_a_browser_comes_in_with_a_token_and_needs_its_word_to_change_anything(
    api: Api,
) -> None:
    opened = await api.anna.client.post("/browser-session")
    assert opened.status_code == 201
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    headers = {"Cookie": cookie.partition(";")[0]}
    async with api.connect(**headers) as client:
        assert (await client.get("/me")).json()["tenant_id"] == str(api.anna.account.tenant_id)
        unsaid = await client.post("/projects", json={"prompt": "p"})
        check_problem(unsaid, 403, "csrf_invalid")
        assert "set-cookie" not in unsaid.headers
        again = (await client.get("/browser-session")).json()
        assert again == opened.json()
        word = {"X-CSRF-Token": again["csrf_token"]}
        made = await client.post("/projects", json={"prompt": "p"}, headers=word)
        assert made.status_code == 201
        out = await client.delete("/browser-session", headers=word)
        assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
        gone = await client.get("/me")
        check_problem(gone, 401, "token_invalid")
        assert gone.headers["set-cookie"] == out.headers["set-cookie"]
        check_problem(await api.anna.client.get("/browser-session"), 404, "not_found")
        wrong = {"Authorization": "Bearer nonsense"}
        assert "set-cookie" not in (await client.get("/me", headers=wrong)).headers


async def test_an_organisation_has_members_who_come_and_go(api: Api) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    made = await api.anna.post("/organizations", {"name": "Bakers"}, headers=key)
    assert await api.anna.post("/organizations", {"name": "Bakers"}, headers=key) == made
    tenants = (await api.anna.get("/me"))["tenants"]
    assert (made["id"], "organization") in {(one["id"], one["kind"]) for one in tenants}
    assert [one["role"] for one in (await api.anna.get("/members"))["items"]] == ["owner"]
    alone = await api.anna.client.delete(f"/members/{api.anna.account.user_id}")
    assert alone.status_code in (403, 404, 409)
