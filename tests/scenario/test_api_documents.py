"""Documents as people read them, through the API: HTML, comparisons, feedback, reports, shares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import httpx2
import pytest

from dialectic.app import accounts
from dialectic.app.rendering import PREVIEWS_PER_S, get_renderings
from dialectic.app.shares import get_shared_reports
from dialectic.contract.documents import RenderedDocument
from dialectic.core.access import Role, Scope
from dialectic.core.documents.safe_html import render_text
from dialectic.postgres import embedded
from tests.problems import check_problem
from tests.scenario.api_in_process import Api, ApiUser, open_api
from tests.scenario.finished_session import MODELS, FinishedSession, play_first_stage
from tests.unit.core.documents.html_page import Page


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


@pytest.fixture
async def thesis_ids(anna: ApiUser, finished_session: FinishedSession) -> list[str]:
    lines = (await anna.get(f"{finished_session.path}/contributions"))["items"]
    return [line["id"] for line in lines]


# -- HTML ------------------------------------------------------------------------------------------


async def test_a_contribution_is_shown_as_html_with_its_contents_and_blocks(
    anna: ApiUser, thesis_ids: list[str]
) -> None:
    text = (await anna.get(f"/contributions/{thesis_ids[0]}"))["content"]
    shown = await anna.client.get(f"/contributions/{thesis_ids[0]}/html")
    rendered = RenderedDocument.model_validate_json(shown.content)
    assert rendered.html == render_text(text).html
    assert rendered.lang == "en"
    Page(rendered.html).check_harmless()
    headings = [text[b.start : b.end] for b in rendered.blocks if b.id == rendered.toc[0].id]
    assert rendered.toc[0].text in headings[0]
    etag = {"If-None-Match": shown.headers["etag"]}
    again = await anna.client.get(f"/contributions/{thesis_ids[0]}/html", headers=etag)
    assert (again.status_code, again.content) == (304, b"")
    assert shown.headers["etag"] == again.headers["etag"]


async def test_a_document_and_a_preview_are_shown_by_the_same_renderer(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    one = (await anna.get(f"{finished_session.path}/documents"))["items"][0]
    text = (await anna.get(f"/documents/{one['id']}"))["content"]
    shown = await anna.get(f"/documents/{one['id']}/html")
    assert shown == await anna.post("/render", {"text": text})
    assert (await anna.post("/render", {"text": ""}))["html"] == ""


async def test_a_text_asked_for_twenty_times_at_once_is_rendered_once(
    api: Api, anna: ApiUser, thesis_ids: list[str]
) -> None:
    path = f"/contributions/{thesis_ids[0]}/html"
    answers = await asyncio.gather(*(anna.client.get(path) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert get_renderings(api.engine).count == 1


async def test_other_requests_are_answered_while_a_megabyte_is_rendered(
    anna: ApiUser,
) -> None:
    paragraph = "# Part\n\nThe hall is *for* the people **of** the village.\n\n- one\n- two\n\n"
    text = (paragraph * 20_000)[:1_000_000]
    rendering = asyncio.create_task(anna.client.post("/render", json={"text": text}))
    answered = 0
    while not rendering.done():
        answered += (await anna.client.get("/me")).status_code == 200
    shown = (await rendering).json()
    assert len(shown["blocks"]) > 50_000
    assert answered > 5


async def test_previews_are_limited_in_size_and_rate(api: Api, anna: ApiUser) -> None:
    refused = await anna.client.post("/render", json={"text": "a" * 2_000_001})
    check_problem(refused, 422, "validation_failed")
    answers = [
        await anna.client.post("/render", json={"text": str(n)})
        for n in range(int(PREVIEWS_PER_S) * 3)
    ]
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    late = next(answer for answer in answers if answer.status_code == 429)
    check_problem(late, 429, "too_many_requests")
    assert int(late.headers["retry-after"]) >= 1


# -- comparisons -----------------------------------------------------------------------------------


async def test_two_contributions_and_two_versions_are_compared(
    anna: ApiUser, thesis_ids: list[str]
) -> None:
    first, second = thesis_ids
    text = (await anna.get(f"/contributions/{first}"))["content"]
    both = await anna.get(f"/contributions/{first}/diff", **{"with": second})
    assert (both["before_id"], both["after_id"]) == (second, first)
    kept = [
        span["text"]
        for part in both["sections"]
        for span in part["spans"]
        if span["op"] != "remove"
    ]
    assert "".join("".join(kept).split()) == "".join(text.split())
    edited = await anna.client.put(
        f"/contributions/{first}", json={"content": f"{text}\n\nOne more line.\n"}
    )
    path = f"/contributions/{edited.json()['id']}/diff"
    changes = await anna.get(path, **{"with": first})
    assert changes["words"] == {"added": 3, "removed": 0}
    states = {part["state"] for part in changes["sections"]}
    assert states == {"same", "changed"}
    missing = await anna.client.get(path, params={"with": str(uuid4())})
    check_problem(missing, 404, "not_found")
    check_problem(await anna.client.get(path), 422, "validation_failed")


# -- feedback and ratings --------------------------------------------------------------------------


@asynccontextmanager
async def open_organization(api: Api) -> AsyncIterator[tuple[ApiUser, ApiUser, FinishedSession]]:
    """Anna and Ben in one organisation, and a session there that Anna owns, with one thesis."""
    tenant_id = UUID((await api.anna.post("/organizations", {"name": "Bakers"}))["id"])
    owner = replace(accounts.build_owner(api.anna.account), tenant_id=tenant_id)
    name = (await api.ben.get("/members"))["items"][0]["name"]
    await accounts.set_member(api.engine.db, owner, name, Role.MEMBER)
    anna, ben = [await api.enter(user, tenant_id) for user in (api.anna, api.ben)]
    async with anna.client, ben.client:
        session = await anna.make_session(is_autopilot=False)
        await anna.post(f"/sessions/{session['id']}/generate")
        await api.work(anna, session["id"])
        home = api.engine.settings.home
        yield (
            anna,
            ben,
            FinishedSession(api.engine.address, home, anna.account, anna.token, session),
        )


async def test_feedback_is_read_changed_and_taken_back(
    anna: ApiUser, finished_session: FinishedSession, thesis_ids: list[str]
) -> None:
    path = f"{finished_session.path}/feedback"
    told = {"stage": "thesis", "text": "Think of winter."}
    [stage_id] = (await anna.post(path, told))["ids"]
    about = {**told, "text": "Too short.", "contribution_id": thesis_ids[0]}
    saved = await anna.post(path, about)
    entries = {one["id"]: one for one in (await anna.get(path))["items"]}
    assert entries[stage_id]["kind"] == "stage"
    assert entries[stage_id]["by"]["user_id"] == str(anna.account.user_id)
    assert entries[stage_id]["allowed"] == ["change", "remove"]
    assert entries[stage_id]["updated_at"] is None
    assert entries[saved["ids"][0]]["contribution_id"] == thesis_ids[0]

    changed = await anna.client.patch(f"/feedback/{stage_id}", json={"text": "Think of summer."})
    assert changed.json()["text"] == "Think of summer."
    assert changed.json()["updated_at"] is not None
    assert "summer" in await read_file(anna, finished_session, saved["path"])
    for feedback_id in (stage_id, saved["ids"][0]):
        assert (await anna.client.delete(f"/feedback/{feedback_id}")).status_code == 204
        check_problem(await anna.client.delete(f"/feedback/{feedback_id}"), 404, "not_found")
    assert (await anna.get(path))["items"] == []
    assert "summer" not in await read_file(anna, finished_session, saved["path"])


async def read_file(user: ApiUser, finished: FinishedSession, path: str) -> str:
    project = finished.session["project_id"]
    return (await user.client.get(f"/projects/{project}/file", params={"path": path})).text


async def test_a_person_has_one_rating_of_a_document_and_sees_the_mean(
    api: Api,
) -> None:
    async with open_organization(api) as (anna, ben, session):
        await check_ratings(anna, ben, session)


async def check_ratings(anna: ApiUser, ben: ApiUser, session: FinishedSession) -> None:
    path = f"{session.path}/contributions"
    first = (await anna.get(path))["items"][0]["id"]
    await anna.post(f"/contributions/{first}/rating", {"rating": 2})
    await anna.post(f"/contributions/{first}/rating", {"rating": 5})
    await ben.post(f"/contributions/{first}/rating", {"rating": 2})
    seen = await ben.get(f"/contributions/{first}")
    assert (seen["my_rating"], seen["rating_count"], seen["rating_mean"]) == (2, 2, 3.5)
    line = (await anna.get(path))["items"][0]
    assert (line["my_rating"], line["rating_count"], line["rating_mean"]) == (5, 2, 3.5)
    entries = (await ben.get(f"{session.path}/feedback"))["items"]
    by_anna = next(one for one in entries if one["rating"] == 5)
    by_ben = next(one for one in entries if one["rating"] == 2)
    assert (by_anna["allowed"], by_ben["allowed"]) == ([], ["change", "remove"])
    for answer in (
        await ben.client.patch(f"/feedback/{by_anna['id']}", json={"rating": 1}),
        await ben.client.delete(f"/feedback/{by_anna['id']}"),
    ):
        assert check_problem(answer, 403, "forbidden")["reason"] == "not_yours"
    wrong = await anna.client.patch(f"/feedback/{by_anna['id']}", json={"text": "no"})
    assert check_problem(wrong, 422, "invalid_value")["reason"] == "other_kind"
    # The owner of the session may remove what others said, and not change it.
    others = await anna.client.patch(f"/feedback/{by_ben['id']}", json={"rating": 1})
    assert check_problem(others, 403, "forbidden")["reason"] == "not_yours"
    for one in (by_ben, by_anna):
        assert (await anna.client.delete(f"/feedback/{one['id']}")).status_code == 204
    assert (await anna.get(f"/contributions/{first}"))["rating_count"] == 0


async def test_changed_feedback_reaches_later_prompts_as_changed(api: Api) -> None:
    session = await api.anna.make_session(until="antithesis", is_autopilot=False)
    path = f"/sessions/{session['id']}"
    await api.anna.post(f"{path}/generate")
    await api.work(api.anna, session["id"])
    told = {"stage": "thesis", "text": "Mind the penguins."}
    [feedback_id] = (await api.anna.post(f"{path}/feedback", told))["ids"]
    await api.anna.client.patch(f"/feedback/{feedback_id}", json={"text": "Mind the walruses."})
    await api.anna.post(f"{path}/submit")
    await api.work(api.anna, session["id"])
    files = (await api.anna.get(f"/projects/{session['project_id']}/files"))["items"]
    [raw] = [one["path"] for one in files if "antithesis" in one["path"] and "_raw" in one["path"]]
    sent = await api.anna.client.get(
        f"/projects/{session['project_id']}/file", params={"path": raw}
    )
    assert "walruses" in sent.text
    assert "penguins" not in sent.text
    # What was read stays in the record when the feedback is taken back.
    assert (await api.anna.client.delete(f"/feedback/{feedback_id}")).status_code == 204
    again = await api.anna.client.get(
        f"/projects/{session['project_id']}/file", params={"path": raw}
    )
    assert again.content == sent.content


async def test_two_people_do_not_undo_each_others_ruling(api: Api) -> None:
    async with open_organization(api) as (anna, ben, session):
        claim = (await anna.get(f"{session.path}/claims"))["claims"][0]
        place = f"{session.path}/claims/{claim['id']}/ruling"
        answer = await anna.client.put(place, json={"verdict": "keep"})
        assert answer.status_code == 200, answer.text
        first = answer.json()
        refused = await ben.client.put(place, json={"verdict": "drop"})
        problem = check_problem(refused, 409, "conflict")
        assert problem["reason"] == "ruled_already"
        check_problem(await ben.client.delete(place), 403, "forbidden")
        named = {"verdict": "drop", "replaces": first["id"]}
        second = (await ben.client.put(place, json=named)).json()
        assert second["verdict"] == "drop"
        assert (await anna.client.delete(place)).status_code == 204, "the session is hers"


async def test_feedback_of_another_tenant_does_not_exist(
    api: Api, anna: ApiUser, finished_session: FinishedSession
) -> None:
    told = {"stage": "thesis", "text": "Think of winter."}
    [feedback_id] = (await anna.post(f"{finished_session.path}/feedback", told))["ids"]
    for one in (feedback_id, uuid4()):
        changed = await api.ben.client.patch(f"/feedback/{one}", json={"text": "x"})
        check_problem(changed, 404, "not_found")
        check_problem(await api.ben.client.delete(f"/feedback/{one}"), 404, "not_found")
    check_problem(await api.ben.client.get(f"{finished_session.path}/feedback"), 404, "not_found")
    await anna.client.delete(f"/feedback/{feedback_id}")


# -- edits -----------------------------------------------------------------------------------------


async def test_an_edit_of_an_older_version_names_the_newest_and_its_author(
    api: Api,
) -> None:
    async with open_organization(api) as (anna, ben, session):
        first = (await anna.get(f"{session.path}/contributions"))["items"][0]["id"]
        await check_edits(anna, ben, f"/contributions/{first}")


async def check_edits(anna: ApiUser, ben: ApiUser, path: str) -> None:
    read = {"If-Match": (await anna.client.get(path)).headers["etag"]}
    edited = await ben.client.put(path, json={"content": "# Of Ben\n"}, headers=read)
    assert edited.status_code == 200
    late = await anna.client.put(path, json={"content": "# Of Anna\n"}, headers=read)
    problem = check_problem(late, 412, "precondition_failed")
    assert problem["reason"] == "newer_version"
    assert (problem["current"]["id"], problem["current"]["version"]) == (edited.json()["id"], 2)
    assert problem["current"]["by"]["user_id"] == str(ben.account.user_id)
    versions = (await anna.get(f"{path}/versions"))["items"]
    assert [one["by"] and one["by"]["user_id"] for one in versions] == [
        None,
        str(ben.account.user_id),
    ]
    assert versions[1]["by"]["name"].startswith("ben ")
    # A rating changes the ETag of the version, and is not an edit.
    await anna.post(f"{path}/rating", {"rating": 4})
    now = edited.headers["etag"]
    taken = await anna.client.put(path, json={"content": "# Both\n"}, headers={"If-Match": now})
    assert taken.json()["version"] == 3
    assert taken.headers["etag"].startswith(f'"{taken.json()["id"]}.')


async def test_another_tenant_sees_no_html(
    api: Api, thesis_ids: list[str], finished_session: FinishedSession
) -> None:
    for path in (f"/contributions/{thesis_ids[0]}/html", f"/contributions/{uuid4()}/html"):
        check_problem(await api.ben.client.get(path), 404, "not_found")


# -- reports and links to them ---------------------------------------------------------------------


async def test_a_report_can_leave_out_drafts_and_the_names_of_models(
    anna: ApiUser, finished_session: FinishedSession
) -> None:
    named = (await anna.client.get(f"{finished_session.path}/report")).text
    assert "offline/skeptic" in named
    wish = {"names": "false", "drafts": "false"}
    hidden = (await anna.client.get(f"{finished_session.path}/report", params=wish)).text
    for model in MODELS:
        assert model not in hidden
        assert model.replace("/", "-") not in hidden
    assert "Thesis by Seat 1" in hidden
    assert "offline model" in hidden
    page = Page(hidden)
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#"))


@pytest.fixture
async def stranger(api: Api) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(api.app, raise_app_exceptions=True)
    async with httpx2.AsyncClient(transport=transport, base_url="http://house.test") as client:
        yield client


async def test_a_link_shows_the_report_to_anyone_until_it_is_revoked(
    api: Api, anna: ApiUser, finished_session: FinishedSession, stranger: httpx2.AsyncClient
) -> None:
    made = await anna.post(f"{finished_session.path}/shares", {"days": 7, "names": False})
    path = made["path"]
    assert len(path) == len("/s/") + 43
    [listed] = (await anna.get(f"{finished_session.path}/shares"))["items"]
    assert listed == {name: value for name, value in made.items() if name != "path"}
    stored = await api.engine.db.transact(
        anna.account.tenant_id,
        lambda c: c.fetchval("select to_jsonb(s)::text from dialectic_shares s"),
    )
    assert path.removeprefix("/s/") not in stored

    shown = await stranger.get(path)
    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Seat 1" in shown.text
    assert "house.test" not in shown.text
    assert "set-cookie" not in shown.headers
    assert shown.headers["x-robots-tag"].startswith("noindex")
    assert shown.headers["cache-control"] == "no-store"
    policy = shown.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert (await stranger.head(path)).status_code == 200

    assert (await anna.client.delete(f"/shares/{made['id']}")).status_code == 204
    gone = await stranger.get(path)
    never = await stranger.get("/s/" + "A" * 43)
    odd = await stranger.get("/s/x%00y")
    assert gone.status_code == 404
    for other in (never, odd):
        assert (other.status_code, other.content) == (gone.status_code, gone.content)
        assert set(other.headers) == set(gone.headers)
    check_problem(await anna.client.delete(f"/shares/{made['id']}"), 404, "not_found")


async def test_a_link_with_a_pass_phrase_asks_for_it_at_every_visit(
    api: Api, anna: ApiUser, finished_session: FinishedSession, stranger: httpx2.AsyncClient
) -> None:
    wish = {"pass_phrase": "correct horse"}
    made = await anna.post(f"{finished_session.path}/shares", wish)
    path, title = made["path"], "A booking service"
    asked = await stranger.get(path)
    assert asked.status_code == 200
    assert title not in asked.text
    assert "form-action 'self'" in asked.headers["content-security-policy"]
    for guess in ("wrong", "", "correct horse "):
        refused = await stranger.post(path, data={"pass_phrase": guess})
        assert title not in refused.text
        assert refused.status_code == (403 if guess else 200)
    opened = await stranger.post(path, data={"pass_phrase": "correct horse"})
    assert (opened.status_code, title in opened.text) == (200, True)
    assert "set-cookie" not in opened.headers
    assert title not in (await stranger.get(path)).text
    long = await stranger.post(path, content=b"pass_phrase=" + b"a" * 5_000)
    assert long.status_code == 400
    guesses = [await stranger.post(path, data={"pass_phrase": "wrong"}) for _ in range(8)]
    assert guesses[-1].status_code == 429
    assert int(guesses[-1].headers["retry-after"]) >= 1
    await anna.client.delete(f"/shares/{made['id']}")


async def test_a_link_that_has_ended_leads_nowhere_and_is_not_listed(
    api: Api, anna: ApiUser, finished_session: FinishedSession, stranger: httpx2.AsyncClient
) -> None:
    made = await anna.post(f"{finished_session.path}/shares")
    await api.engine.db.transact(
        anna.account.tenant_id,
        lambda c: c.execute("update dialectic_shares set expires_at = now() - interval '1 s'"),
    )
    assert (await stranger.get(made["path"])).status_code == 404
    assert (await anna.get(f"{finished_session.path}/shares"))["items"] == []


async def test_a_report_that_is_asked_for_often_is_built_once_a_minute(
    api: Api, anna: ApiUser, finished_session: FinishedSession, stranger: httpx2.AsyncClient
) -> None:
    made = await anna.post(f"{finished_session.path}/shares")
    answers = await asyncio.gather(*(stranger.get(made["path"]) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(get_shared_reports(api.engine).kept) == 1
    flood = await asyncio.gather(*(stranger.get(made["path"]) for _ in range(30)))
    assert {answer.status_code for answer in flood} == {200, 429}
    await anna.client.delete(f"/shares/{made['id']}")


async def test_a_token_that_only_reads_shares_nothing(
    api: Api, finished_session: FinishedSession
) -> None:
    reader = await api.let_in(scopes={Scope.READ})
    answer = await reader.client.post(f"{finished_session.path}/shares")
    assert check_problem(answer, 403, "forbidden")["reason"] == "missing_scope"


# -- search ----------------------------------------------------------------------------------------


async def test_everything_is_found_by_its_words_with_the_page_that_shows_it(
    api: Api, anna: ApiUser, finished_session: FinishedSession, thesis_ids: list[str]
) -> None:
    project_id = finished_session.session["project_id"]
    await anna.get(f"/projects/{project_id}/search", q="volunteers")  # fills the index
    chat = await anna.post("/chat", {"message": "Volunteers, hm?", "model": MODELS[0]})
    hits = (await anna.get("/search", q="VOLUNTEERS", limit=50))["items"]
    paths = {(hit["kind"], hit["path"].partition("#")[0]) for hit in hits}
    assert ("project", f"/projects/{project_id}") in paths
    assert ("session", finished_session.path) in paths
    assert ("chat", f"/chat/{chat['chat_id']}") in paths
    assert {"document", "passage"} <= {kind for kind, _ in paths}
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    passage = next(hit for hit in hits if hit["kind"] == "passage")
    shown = (await anna.get(f"/contributions/{passage['id']}/html"))["html"]
    assert f'id="{passage["path"].partition("#")[2]}"' in shown
    assert all(len(hit["excerpt"]) < 300 for hit in hits)


async def test_a_search_is_limited_and_takes_signs_as_they_are(anna: ApiUser) -> None:
    some = await anna.get("/search", q="hall", kinds="document,project", limit=1)
    assert len(some["items"]) == 1
    only = await anna.get("/search", q="hall", kinds="document")
    assert {hit["kind"] for hit in only["items"]} == {"document"}
    for odd in ("%", "_", "\\", "nowhere-to-be-found", "'; drop table x"):
        assert (await anna.get("/search", q=odd, kinds="project,session,chat"))["items"] == []
    wrong = await anna.client.get("/search", params={"q": "x", "kinds": "wallet"})
    assert check_problem(wrong, 422, "invalid_value")["reason"] == "unknown_kind"
    for q in ("", " ", "x" * 201, "a\x00b"):
        answer = await anna.client.get("/search", params={"q": q})
        check_problem(answer, 422, "validation_failed")


async def test_a_search_finds_nothing_of_another_tenant(api: Api, anna: ApiUser) -> None:
    assert (await anna.get("/search", q="volunteers"))["items"]
    assert (await api.ben.get("/search", q="volunteers"))["items"] == []
