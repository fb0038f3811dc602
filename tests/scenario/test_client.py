"""The client and the command line against a server on loopback: what is done there is what would
have been done here."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

import pytest

from dialectic.cli.remote import open_remote_backend
from dialectic.client import AsyncClient, Client, account, call, projects
from dialectic.client.events import LOSSES_MAX
from dialectic.client.transport import read_streamed
from dialectic.contract.base import Page
from dialectic.contract.chats import ChatReply
from dialectic.contract.events import Event
from dialectic.contract.projects import ProjectSummary
from dialectic.contract.sessions import Session, SessionRequest
from dialectic.core.sse import EVENT_BYTES_MAX
from dialectic.errors import (
    ConfigurationError,
    Conflict,
    KeyReused,
    NotFound,
    ServerUnreachable,
    TokenInvalid,
    UnknownModel,
)
from dialectic.postgres import embedded
from dialectic.settings import Settings
from tests.command_pool import CommandResult
from tests.database.job_table import database_of_a_module
from tests.ports import find_free_port
from tests.problems import list_codes, refusing
from tests.sample_events import build_frame
from tests.scenario.server_thread import RemoteServer, open_remote_server
from tests.scenario.test_run import Home, read_tree, without_ids

PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
MODEL = "offline/skeptic"


@pytest.fixture(scope="module")
def remote_server(
    server: embedded.Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RemoteServer]:
    home = tmp_path_factory.mktemp("remote_server") / "home"
    with (
        database_of_a_module(server, template) as address,
        open_remote_server(address, home) as opened,
    ):
        yield opened


@pytest.fixture(scope="module")
def client(remote_server: RemoteServer) -> Iterator[Client]:
    with Client(remote_server.url, token=remote_server.anna) as opened:
        yield opened


@pytest.fixture(scope="module")
def session(client: Client) -> Session:
    """A session that has run to its end, followed by its events."""
    project = client.create_project(PROMPT, name="Hall")
    begun = client.create_session(project.id, SessionRequest(models=[MODEL], until="thesis"))
    client.generate(begun.id)
    follow_to_the_end(client, begun.id)
    return client.get_session(begun.id)


def follow_to_the_end(client: Client, session_id: UUID) -> None:
    for event in client.events(after="0", session=session_id):
        if event.type == "contribution_generation_complete":
            break


# -- the client -----------------------------------------------------------------------------------


def test_a_session_is_begun_followed_and_read(client: Client, session: Session) -> None:
    (line,) = client.list_contributions(session.id)
    whole = client.get_contribution(line.id)

    assert session.status == "thesis_generation_complete"
    assert whole.content
    assert (whole.model, whole.stage, whole.version) == (MODEL, "thesis", 1)
    assert client.look(session.id).session.id == session.id
    assert [found.id for found in client.list_sessions(session.project_id)] == [session.id]


def test_the_overlay_of_a_project_is_in_its_prompts_and_can_be_removed(client: Client) -> None:
    project = client.create_project(PROMPT, overlay=" Never by mail.\n")
    assert project.overlay == "Never by mail."
    begun = client.create_session(project.id, SessionRequest(models=[MODEL], until="thesis"))
    client.generate(begun.id)
    follow_to_the_end(client, begun.id)
    seeds = [one for one in client.list_documents(begun.id) if one.kind == "seed_prompt"]
    texts = [client.get_document(one.id).content for one in seeds]
    assert ["- For this project: Never by mail.\n" in text for text in texts] == [True]
    renamed = client.change_project(project.id, name="Hall by phone")
    assert renamed.overlay == "Never by mail."
    assert client.change_project(project.id, overlay="").overlay == ""


def test_a_list_is_read_to_its_end_over_many_pages(client: Client, session: Session) -> None:
    made = [client.create_project(f"Number {number}.").id for number in range(3)]
    small = call.get("/projects", Page[ProjectSummary], limit=1)
    found = [line.id for line in client.list_all(small)]

    assert found[:3] == made[::-1]
    assert session.project_id in found
    assert found == [line.id for line in client.list_all(projects.list_projects())]


def test_events_are_resumed_behind_the_last_one_that_was_seen(
    client: Client, session: Session
) -> None:
    events = client.events(after="0", session=session.id)
    first = [next(events) for _ in range(3)]
    events.close()  # type: ignore[attr-defined]

    again = client.events(after=first[0].resume_id, session=session.id)

    # Ids also hold up to where changes were told, which a later stream knows better.
    seen = [one.model_copy(update={"resume_id": None}) for one in first[1:]]
    assert [next(again).model_copy(update={"resume_id": None}) for _ in range(2)] == seen


def test_a_request_under_one_name_is_carried_out_once(client: Client) -> None:
    made = [client.create_project("Once.", key="once-and-for-all").id for _ in range(2)]

    assert made[0] == made[1]
    with pytest.raises(KeyReused):
        client.create_project("Twice.", key="once-and-for-all")


def test_problems_are_the_errors_that_the_server_met(
    remote_server: RemoteServer, client: Client, session: Session
) -> None:
    with refusing(Conflict, reason="session_complete"):
        client.pause(session.id)
    with pytest.raises(UnknownModel):
        client.create_session(session.project_id, SessionRequest(models=["nobody/knows"]))
    with Client(remote_server.url, token=remote_server.ben) as stranger, pytest.raises(NotFound):
        stranger.get_session(session.id)
    with Client(remote_server.url, token="dlk_wrong") as unknown, pytest.raises(TokenInvalid):
        unknown.get_me()


def test_an_answer_of_a_model_streams_and_ends_whole(client: Client) -> None:
    *pieces, reply = client.chat("Name a bakery.", MODEL)

    assert isinstance(reply, ChatReply)
    assert "".join(str(piece) for piece in pieces) == reply.content
    assert client.ask("And another?", MODEL, chat_id=reply.chat_id).chat_id == reply.chat_id
    assert len(client.get_chat(reply.chat_id).messages) == 4


def test_a_project_is_taken_away_and_brought_back(
    client: Client, session: Session, tmp_path: Path
) -> None:
    out = tmp_path / "hall.zip"
    client.export_project(session.project_id, out)
    taken = client.import_project(out)

    assert [path.name for path in tmp_path.iterdir()] == ["hall.zip"]
    assert zipfile.is_zipfile(out)
    assert taken.is_copy
    assert len(taken.session_ids) == 1


async def test_the_asynchronous_client_has_the_same_verbs(
    remote_server: RemoteServer, session: Session, tmp_path: Path
) -> None:
    async with AsyncClient(remote_server.url, token=remote_server.anna) as client:
        both = await asyncio.gather(client.get_session(session.id), client.get_me())
        lines = [line async for line in client.list_contributions(session.id)]
        events = client.events(after="0", session=session.id)
        first = await anext(events)
        await events.aclose()
        said = [piece async for piece in client.chat("Hi.", MODEL)]
        await client.export_project(session.project_id, tmp_path / "hall.zip", finished=True)
        taken = await client.import_project(await export(client, session, tmp_path))

    assert both[0] == session
    assert len(lines) == 1
    assert isinstance(first, Event)
    assert first.session_id == session.id
    assert isinstance(said[-1], ChatReply)
    assert taken.is_copy


async def export(client: AsyncClient, session: Session, folder: Path) -> Path:
    await client.export_project(session.project_id, folder / "all.zip")
    return folder / "all.zip"


def test_a_server_that_is_away_and_one_that_is_something_else_are_told_apart() -> None:
    with (
        Client(f"http://127.0.0.1:{find_free_port()}") as nobody,
        refusing(ServerUnreachable, reason="no_answer"),
    ):
        nobody.get_me()
    with socket.create_server(("127.0.0.1", 0)) as other:
        answering = asyncio.run(ask_something_else(other))

    assert "sent an unknown response" in answering


async def answer_in_turn(
    listening: socket.socket, answers: list[bytes], heard: list[str]
) -> asyncio.Server:
    """Answer each connection with the next of these bytes, and hang up; write down what came."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(find_header(head, "content-length") or 0))
        heard.append(head + body.decode())
        writer.write(answers.pop(0))
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, sock=listening)


def find_header(heard: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*)\r$", heard, re.MULTILINE)
    return found[1] if found else ""


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n"


async def test_a_request_whose_answer_is_lost_is_sent_again_under_its_name() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    done = b"HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n"
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    answers = [b"", busy, done]
    async with await answer_in_turn(listening, answers, heard), AsyncClient(url) as client:
        await client.mark_read(1)

    keys = {find_header(one, "idempotency-key") for one in heard}
    assert (len(heard), len(keys), "" in keys) == (3, 1, False)


async def test_a_deletion_with_an_unknown_outcome_is_not_sent_again() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with await answer_in_turn(listening, [b"", b""], heard), AsyncClient(url) as client:
        with pytest.raises(ServerUnreachable):
            await client.delete_chat(UUID(int=1))

    assert len(heard) == 1


def write_event(number: int) -> bytes:
    """Write an event of a type that no client knows."""
    data = build_frame("news", {"word": "hello"}, id=number).data
    return f"id: a.{number}\nevent: news\ndata: {data}\n\n".encode()


async def test_a_stream_that_is_cut_goes_on_behind_its_last_whole_event() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    first = HEAD + b"retry: 10\n" + write_event(1) + write_event(2)[:-9]
    second = HEAD + write_event(2)
    async with await answer_in_turn(listening, [first, second], heard), AsyncClient(url) as client:
        events = client.events(after="a.0")
        result = [(await anext(events)).resume_id for _ in range(2)]
        await events.aclose()

    assert result == ["a.1", "a.2"]
    assert [find_header(one, "last-event-id") for one in heard] == ["a.0", "a.1"]


GONE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"


async def test_a_stream_outlives_a_server_that_restarts_behind_a_gateway() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    first = HEAD + b"retry: 10\n" + write_event(1)
    second = HEAD + write_event(2)
    answers = [first, GONE, b"", HEAD, second]
    async with await answer_in_turn(listening, answers, heard), AsyncClient(url) as client:
        events = client.events(after="a.0")
        result = [(await anext(events)).resume_id for _ in range(2)]
        await events.aclose()

    assert result == ["a.1", "a.2"]
    assert {find_header(one, "last-event-id") for one in heard[1:]} == {"a.1"}


async def test_a_stream_that_ends_at_once_is_not_asked_for_without_end() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    answers = [HEAD + b"retry: 1\n\n", *[HEAD] * (LOSSES_MAX + 1)]
    async with await answer_in_turn(listening, answers, heard), AsyncClient(url) as client:
        with refusing(ServerUnreachable, reason="streams_end", subject=url):
            await anext(client.events())

    assert len(heard) <= LOSSES_MAX + 2


@pytest.mark.parametrize(
    "result",
    [
        b"data: [1]\n\n",
        b"data: {\n\n",
        b"data: %s\n\n" % build_frame("session_paused", {}).data.encode(),
        b"data: " + b"x" * (EVENT_BYTES_MAX + 1),
    ],
    ids=["no object", "half an object", "a field is missing", "too long"],
)
async def test_events_that_are_none_are_told_as_that(result: bytes) -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with await answer_in_turn(listening, [HEAD + result], heard), AsyncClient(url) as client:
        with refusing(ConfigurationError, reason="not_dialectic"):
            await anext(client.events())


def build_reply(said: str) -> ChatReply:
    return ChatReply.model_validate(
        {
            **dict.fromkeys(("chat_id", "question_id", "message_id"), str(UUID(int=1))),
            "model": MODEL,
            "content": said,
            "finish_reason": "stop",
            "incomplete": False,
            "flags": [],
            "usage": {"input_tokens": 1, "output_tokens": 1, "source": "counted", "calls": 1},
        }
    )


@pytest.mark.parametrize("is_cut", [True, False])
async def test_an_answer_whose_stream_is_lost_is_asked_for_again_just_as_it_was(
    *, is_cut: bool
) -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    whole = build_reply("The Early Loaf.")
    head = HEAD.replace(b"close\r\n", b"close\r\nContent-Length: 999\r\n") if is_cut else HEAD
    lost = head + b'event: delta\ndata: {"text": "The"}\n\n'
    result = HEAD + b"event: reply\ndata: %s\n\n" % whole.model_dump_json().encode()
    async with await answer_in_turn(listening, [lost, result], heard), AsyncClient(url) as client:
        said = [piece async for piece in client.chat("Name a bakery.", MODEL)]

    assert said == ["The", whole]
    keys = {find_header(one, "idempotency-key") for one in heard}
    bodies = {one.partition("\r\n\r\n")[2] for one in heard}
    assert (len(heard), len(keys), len(bodies)) == (2, 1, 1)


async def test_a_question_whose_gateway_has_no_server_is_asked_again() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    whole = build_reply("The Early Loaf.")
    result = HEAD + b"event: reply\ndata: %s\n\n" % whole.model_dump_json().encode()
    async with await answer_in_turn(listening, [GONE, result], heard), AsyncClient(url) as client:
        assert [piece async for piece in client.chat("Name a bakery.", MODEL)] == [whole]

    assert len({find_header(one, "idempotency-key") for one in heard}) == 1


async def test_the_synchronous_client_gets_over_the_same_losses() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    done = b"HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n"
    whole = build_reply("The Early Loaf.")
    reply = HEAD + b"event: reply\ndata: %s\n\n" % whole.model_dump_json().encode()
    cut = HEAD.replace(b"close\r\n", b"close\r\nContent-Length: 999\r\n") + b": still here\n\n"
    answers = [b"", done, cut, reply, HEAD + b"retry: 1\n\n", *[HEAD] * (LOSSES_MAX + 1)]

    def use() -> None:
        with Client(url) as client:
            client.mark_read(1)
            assert list(client.chat("Name a bakery.", MODEL)) == [whole]
            with refusing(ServerUnreachable, reason="streams_end", subject=url):
                next(client.events())

    async with await answer_in_turn(listening, answers, heard):
        await asyncio.to_thread(use)

    keys = [find_header(one, "idempotency-key") for one in heard]
    assert (keys[0], keys[2]) == (keys[1], keys[3])
    assert len(set(keys[:4])) == 2


def test_a_question_that_was_answered_is_answered_again_without_being_asked(
    client: Client,
) -> None:
    question = account.ask("Name a bakery once.", MODEL, stream=True, key="one-bakery")
    said = [client.send(replace(question, read=read_streamed)) for _ in range(2)]

    assert said[0] == said[1]


async def test_an_archive_whose_answer_is_lost_is_sent_again_under_its_name(
    tmp_path: Path,
) -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    taken = {"project_id": str(UUID(int=1)), "name": "n", "slug": "s", "session_ids": []}
    body = json.dumps({**taken, "files": 1, "is_copy": False}).encode()
    done = b"HTTP/1.1 201 Done\r\nConnection: close\r\n\r\n" + body
    (tmp_path / "x.zip").write_bytes(b"")
    async with await answer_in_turn(listening, [b"", done], heard), AsyncClient(url) as client:
        assert (await client.import_project(tmp_path / "x.zip")).files == 1

    assert len({find_header(one, "idempotency-key") for one in heard}) == 1


async def test_a_server_cannot_name_a_file_outside_of_the_folder() -> None:
    listening, heard = socket.create_server(("127.0.0.1", 0)), list[str]()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    page = json.dumps({"items": [{"path": "hall/../../.profile"}], "next_cursor": None}).encode()
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + page
    settings = Settings(home=Path("/nowhere"), server=url)
    async with (
        await answer_in_turn(listening, [answer], heard),
        open_remote_backend(settings) as backend,
    ):
        with refusing(ConfigurationError, reason="leads_out"):
            await backend.list_files(UUID(int=1), "hall")


async def ask_something_else(listening: socket.socket) -> str:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")
        await writer.drain()
        writer.close()

    there = await asyncio.start_server(answer, sock=listening.dup())
    async with there, AsyncClient(f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
        try:
            await client.get_me()
        except ConfigurationError as error:
            return error.message
    return ""


def test_the_examples_in_the_documents_run(
    remote_server: RemoteServer, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "docs/client.md").read_text("utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for example in examples:
        exec(
            example, {"URL": remote_server.url, "TOKEN": remote_server.anna, "__name__": "example"}
        )

    assert len(examples) == 3
    said = capsys.readouterr().out
    assert "'ffffffff'" in said
    assert "'read'" in said


# -- the command line -----------------------------------------------------------------------------


@dataclass(slots=True)
class CommandRecorder:
    """Gives commands, remembers what they named, and forgets what no two runs have in common."""

    home: Home
    words: tuple[str, ...]
    settings: dict[str, str]
    out: Path
    said: list[tuple[str, int, list[str], list[str]]] = field(default_factory=list)
    session: str = ""

    def tell(self, *words: str, stdin: str = "") -> CommandResult:
        result = self.home.tell(*self.words, *words, stdin=stdin, **self.settings)
        shown = [plain(text, self.out) for text in (result.stdout, result.stderr)]
        self.said.append((" ".join(words[:1]), result.code, *shown))  # type: ignore[arg-type]
        return result


IDS = re.compile(
    r"(?<![0-9a-z])([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|[0-9a-f]{8})(?![0-9a-z])"
)
TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?|[\d.]+ (s|min)\b")
# An id in a document's front matter is in quotes where it would be read as a number.
NUMBERED = re.compile(
    r'"((notification_)?id|seq|processing_time_ms|size_bytes)": ?\d+|[\d,]+ bytes'
)
# One of the texts that are searched names an id, so it is found in another place each time.
PLACES = re.compile(r"^ *\d+\.(?= story/)", re.MULTILINE)


def plain(text: str, out: Path) -> list[str]:
    """Lines without ids, times and places, in an order that does not depend on who was quicker."""
    # A command that is advised is the one that is typed where it is.
    text = re.sub(r"--server \S+ ", "", text.replace(str(out), "OUT"))
    text = re.sub(r'[^\s"]*/(?=story)', "", text)
    for pattern in (IDS, TIMES, NUMBERED, PLACES):
        text = pattern.sub("…", text)
    return sorted(re.sub(r" +", " ", line) for line in text.splitlines())


def play(recorder: CommandRecorder) -> None:
    """One story, in the words of someone who does not know where it is played."""
    tell = recorder.tell
    tell("run", PROMPT, "--dry-run", "--json", "--models", f"{MODEL}*2")
    run = ("run", PROMPT, "--models", MODEL, "--name", "story", "--until", "antithesis")
    begun = tell(*run, "--pause", "--out", str(recorder.out))
    recorder.session = session = begun.session
    document = tell("list", session).stdout.split()[0]
    tell("show", document[:12], "--prompt")
    tell("show", document)
    tell("feedback", session, "thesis", "Think of winter too.")
    tell("rate", document, "4")
    tell("edit", document, "--file", "-", stdin="# Mine\n\nAll of it is mine.\n")
    tell("status", session, "--quote")
    tell("next", session, "--json")
    tell("pause", session)
    tell("cancel", session, "--job", "ffffffff")
    tell("watch", session)
    tell("status", "ffffffff")
    tell("export", "story", "--out", str(recorder.out / "story.zip"))
    tell("import", str(recorder.out / "story.zip"), "--json")
    tell("search", "story", "Who keeps the key in winter?")
    tell("wallet", "balance")
    tell("models", "list")
    tell("chat", "Name a bakery.", "--model", MODEL)
    tell("run", PROMPT, "--models", "nobody/knows")


def test_a_story_is_the_same_here_and_at_a_server(
    remote_server: RemoteServer, tmp_path: Path
) -> None:
    shared = {"database_url": remote_server.address.url, "lease_s": "1.2"}
    here = CommandRecorder(Home(remote_server.home), (), shared, tmp_path / "here")
    there = CommandRecorder(
        Home(tmp_path / "nowhere"),
        ("--server", remote_server.url),
        {"token": remote_server.ben},
        tmp_path / "there",
    )
    for recorder in (here, there):
        recorder.out.mkdir()
        play(recorder)

    assert [(name, code) for name, code, *_ in there.said] == [
        (name, code) for name, code, *_ in here.said
    ]
    assert [code for _, code, *_ in here.said if code] == [3, 2, 2, 2, 2]
    different = [
        (local[0], sorted({*local[2], *local[3]} ^ {*remote[2], *remote[3]}))
        for local, remote in zip(here.said, there.said, strict=True)
        if local != remote
    ]
    assert different == [], different
    written = [
        without_ids(read_tree(recorder.out / "story"), "story", recorder.session)
        for recorder in (here, there)
    ]
    assert written[0] == written[1]
    kept = [path.name for path in (tmp_path / "nowhere").iterdir()]
    assert kept == ["copies"], "only where the copy is"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("worker",), 2, "works only on this machine"),
        (("wallet", "topup", "5"), 2, "works only on this machine"),
        (("db", "url"), 2, "works only on this machine"),
        (("simulate",), 2, "only on this machine"),
        (("run", "x", "--process", "./mine"), 2, "'./mine'"),
    ],
)
def test_what_a_server_cannot_do_is_refused(
    remote_server: RemoteServer, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    result = Home(tmp_path / "home").tell(
        *words, "--server", remote_server.url, token=remote_server.anna
    )

    assert (result.code, said in result.stderr) == (code, True), result.stderr


def test_a_wrong_token_address_or_server_ends_a_command_with_words(
    remote_server: RemoteServer, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    closed = f"http://127.0.0.1:{find_free_port()}"
    wrong = home.tell("status", server=remote_server.url, token="dlk_wrong")
    away = home.tell("status", server=closed)
    nonsense = home.tell("--server", "bakery", "status")
    open_ = home.tell(
        "--server", f"http://0.0.0.0:{find_free_port()}", "status", token="dlk_a_secret"
    )

    nobody = home.tell("status", server=remote_server.url)

    assert (nobody.code, list_codes(nobody.stderr)) == (2, ["token_missing"])
    assert "DIALECTIC_TOKEN" in nobody.stderr
    assert (wrong.code, "dlk_wrong" in wrong.stderr) == (2, False)
    assert list_codes(wrong.stderr) == ["token_invalid"]
    assert (away.code, closed in away.stderr) == (4, True)
    assert list_codes(away.stderr) == ["server_unreachable"]
    assert (nonsense.code, list_codes(nonsense.stderr)) == (2, ["invalid_request"])
    assert (open_.code, "https" in open_.stderr) == (4, True)
    assert "secret" not in open_.stderr
