"""No key leaves: three canaries are sung at by servers that repeat every key they are given.

A person's whole day at the command line, with all logs on: runs that are refused, broken off and
answered, lists, tries, reports, an export. Then everything that was said or kept is searched.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import asyncpg
import pytest

from tests.command_pool import command_pool
from tests.conformance.wire_formats import DIALECTS, Dialect
from tests.scenario.test_run import PROMPT
from tests.servers import join_copy
from tests.waiting import PATIENCE_S

KEYS = {dialect.kind.value: f"sk-canary-{dialect.kind.value}-5Tz8kQ" for dialect in DIALECTS}
SPOKEN = {dialect.kind.value: dialect for dialect in DIALECTS}
# The key of an endpoint that a user added: it is stored, encrypted.
OWN_KEY, OWN_MANNERS = (
    "sk-canary-own-endpoint-9Wb2xH",
    ("refuses", "breaks", "fails", "repeats", "answers"),
)
ALL_KEYS = {**KEYS, "own": OWN_KEY}
# What a server does with the key, by the name of the model that is asked.
MANNERS = ("refuses", "breaks", "fails", "repeats", "redirects", "greets", "ends", "answers")
MODEL = """
[endpoints.{wire}.models.{manner}]
context_window_tokens = 64000
max_output_tokens = 2000
input_usd_per_million = 0
output_usd_per_million = 0
tokenizer = "chars:4"
"""


# -- a server that repeats the key -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """One answer of the server."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def say(dialect: Dialect, manner: str, key: str) -> Said:
    echo = f"Incorrect API key provided: {key}. You sent {key!r}."
    refusal = dialect.error(status=401, code=f"invalid_{key}", message=echo)
    text = "The canary is well."
    match manner:
        case "refuses":
            headers = {"www-authenticate": key}
            return Said(json.dumps(refusal).encode(), 401, headers=headers)
        case "breaks":
            return Said(f'{{"echo": "{key}", "body": oops {key}'.encode())
        case "fails":
            events = dialect.beginning(text) + dialect.encode_all([{"type": "error", **refusal}])
            return Said(events, kind="text/event-stream")
        case "repeats":
            # In the text itself, and between two events.
            pieces = (f"{text} You sent {key} and {key[:9]}", f"{key[9:]}.")
            return Said(dialect.stream(*pieces), kind="text/event-stream")
        case "redirects":
            return Said(b"", 302, headers={"location": f"http://127.0.0.1/?key={key}"})
        case "greets":
            return Said(f"<h1>Hello, {key}</h1>".encode(), kind=f"text/{key}; charset={key}")
        case "ends":
            return Said(dialect.stream(text, word=key), kind="text/event-stream")
        case _:
            result = dialect.encode(
                {"type": "told", dialect.id_name: "answer-1", "echo": [{key: key}]}
            )
            return Said(result + dialect.stream(text), kind="text/event-stream")


def find_key(headers: dict[str, str]) -> str:
    given = (headers.get(dialect.key_header, "") for dialect in DIALECTS)
    return next(key for key in given if key).removeprefix("Bearer ")


@contextmanager
def open_parrot() -> Iterator[tuple[int, set[str]]]:
    """Open a server that speaks all three wires; give its port, and the keys it has heard."""
    heard: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer("refuses")

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.answer(sent.get("model") or self.path.split("/models/")[1].split(":")[0])

        def answer(self, manner: str) -> None:
            key = find_key({name.lower(): value for name, value in self.headers.items()})
            heard.add(key)
            said = say(SPOKEN[self.path.split("/")[1]], manner, key)
            self.send_response(said.status, f"Key {key}")
            for name, value in {
                "content-type": said.kind,
                "content-length": str(len(said.body)),
                "x-request-id": f"req-{key}",
                "request-id": f"req-{key}",
                **said.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1], heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# -- a day at the command line ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Day:
    """A home, and everything that its commands have said."""

    home: Path
    origin: str
    said: dict[str, str] = field(default_factory=dict)

    def tell(self, *words: str, stdin: str = "", preflight: bool = False) -> str:
        environment = {
            **os.environ,
            **{f"KEY_{wire.upper()}": key for wire, key in KEYS.items()},
            "DIALECTIC_HOME": str(self.home),
            "DIALECTIC_LOG_LEVEL": "DEBUG",
            "DIALECTIC_MAX_RETRIES": "0",
            "DIALECTIC_PREFLIGHT": str(preflight).lower(),
            "DIALECTIC_ENCRYPTION_KEY": base64.b64encode(b"k" * 32).decode(),
            "DIALECTIC_TENANT_ORIGINS": self.origin,
        }
        result = command_pool.run(words, environment, stdin, patience_s=PATIENCE_S)
        self.said[" ".join(words)[:40]] = result.stdout + result.stderr
        return result.stdout

    def configure(self) -> None:
        tables = [
            f'[endpoints.canary-{wire}]\nkind = "{wire}"\napi_key_env = "KEY_{wire.upper()}"\n'
            f'base_url = "{self.origin}/{wire}/v1"\n'
            + "".join(MODEL.format(wire=f"canary-{wire}", manner=manner) for manner in MANNERS)
            for wire in KEYS
        ]
        (self.home / "config.toml").write_text("\n".join(tables))

    def spend(self) -> None:
        """Do what a person does, and give every command a chance to say too much."""
        for half in (MANNERS[:4], MANNERS[4:]):
            models = ",".join(f"canary-{wire}/{manner}" for wire in KEYS for manner in half)
            name = f"day-{half[0]}"
            self.tell("run", "--until=thesis", "--models", models, PROMPT, preflight=True)
            self.tell("run", "--until", "thesis", "--name", name, "--models", models, PROMPT)
        listed = json.loads(self.tell("status", "--json"))["sessions"]
        for session in listed:
            self.tell("status", session["id"])
            status = json.loads(self.tell("status", "--json", session["id"]))
            self.tell("watch", "--json", session["id"])
            for row in status["contributions"][:1]:
                self.tell("show", "--json", row["id"])
        self.tell("models", "sync")
        self.tell("models", "list", "--json")
        self.tell("models", "test", "canary-openai/refuses")
        self.tell("models", "test", "canary-google/ends")
        self.spend_on_own_endpoint()
        self.tell("doctor")
        self.tell("export", "day-redirects", "--out", str(self.home.parent / "day.zip"))

    def spend_on_own_endpoint(self) -> None:
        models = [f"--model={manner},window=64000,output=2000" for manner in OWN_MANNERS]
        url = f"--url={self.origin}/openai/v1"
        for _ in range(2):  # the second time the name is taken
            self.tell("endpoint", "add", "own", url, "--key-file=-", *models, stdin=OWN_KEY)
        self.tell("endpoint", "list", "--json")
        for manner in OWN_MANNERS:
            self.tell("endpoint", "test", "own", "--model", f"@own/{manner}")
        names = ",".join(f"@own/{manner}" for manner in OWN_MANNERS)
        self.tell("run", "--until=thesis", "--name=day-own", "--models", names, PROMPT)
        self.tell("chat", "Are you well?", "--model", "@own/repeats")
        self.tell("export", "day-own", "--out", str(self.home.parent / "own.zip"))


@dataclass(frozen=True, slots=True)
class Kept:
    """Everything that was said and kept, by where it was found."""

    texts: dict[str, bytes]
    heard: set[str]

    def find_keys(self) -> list[tuple[str, str]]:
        return find_keys(self.texts)


def find_keys(texts: dict[str, bytes]) -> list[tuple[str, str]]:
    """Find the places that hold a key, also one that was escaped, encoded or cut in half."""
    found = []
    for place, data in texts.items():
        for wire, key in ALL_KEYS.items():
            # Without the first and last letters, so that a slip of the scissors is found too.
            forms = (key[4:-2].encode(), key[4:-2].lower().encode(), key.encode().hex().encode())
            if any(form in data for form in forms):
                found.append((place, wire))
    return found


async def dump(url: str) -> dict[str, bytes]:
    """Read every row of every table as text, with all its columns."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "select format('%I.%I', schemaname, tablename) as name from pg_tables"
            " where schemaname not in ('pg_catalog', 'information_schema')"
        )
        dumped = {}
        for table in tables:
            name = table["name"]
            rows = await connection.fetch(f"select t::text as words from {name} t")
            texts = "\n".join(row["words"] for row in rows)
            # Bytes are shown as hexadecimal digits: what they say is searched as well.
            inside = [
                bytes.fromhex(digits) for digits in re.findall(r"\\x((?:[0-9a-f]{2})+)", texts)
            ]
            dumped[f"table {name}"] = texts.encode() + b"\n".join(inside)
        return dumped
    finally:
        await connection.close()


def read_files(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder but the server's own, and what is in every archive."""
    texts = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "postgres" in path.relative_to(folder).parts:
            continue
        texts[f"file {path.name}"] = path.read_bytes()
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                texts |= {f"zip {name}": archive.read(name) for name in archive.namelist()}
    return texts


@pytest.fixture(scope="module")
def kept(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("canary")
    with join_copy(made_home, folder / "home") as server:
        with open_parrot() as (port, heard):
            day = Day(folder / "home", f"http://127.0.0.1:{port}")
            day.configure()
            day.spend()
        rows = asyncio.run(dump(server.url(user="postgres", database="dialectic")))
    said = {f"said by {words}": text.encode() for words, text in day.said.items()}
    return Kept({**said, **rows, **read_files(folder)}, heard)


def test_the_keys_were_sent_and_repeated_and_the_day_left_something_to_search(kept: Kept) -> None:
    assert kept.heard == set(ALL_KEYS.values())
    assert b"@own/answers" in kept.texts["table dialectic.dialectic_contributions"]
    assert b'"has_key": true' in kept.texts["said by endpoint list --json"]
    texts = kept.texts
    assert b"rejects the API key" in texts["table dialectic.dialectic_generation_jobs"]
    assert b"The canary is well." in texts["table dialectic.dialectic_contributions"]
    assert b"DEBUG" in b"".join(text for place, text in texts.items() if place.startswith("said"))
    assert any(place.startswith("zip ") for place in texts)
    assert any(place.endswith("_raw.json") for place in texts)
    # The stars stand where a key stood.
    assert b"***" in texts["table dialectic.dialectic_generation_jobs"]
    assert b"You sent *** and ***." in texts["table dialectic.dialectic_contributions"]
    records = [text for place, text in texts.items() if place.endswith("_raw.json")]
    assert any(b"You sent *** and ***." in text for text in records)


def test_no_key_is_in_anything_that_was_said_or_kept(kept: Kept) -> None:
    assert kept.find_keys() == []


@pytest.mark.parametrize("form", ["{}", "Bearer {}", 'x"{}"', "{}\x00"])
def test_a_key_that_is_planted_is_found_in_any_place(kept: Kept, form: str) -> None:
    for place in ("table dialectic.notifications", "file config.toml"):
        planted = {**kept.texts, place: kept.texts[place] + form.format(KEYS["google"]).encode()}
        assert find_keys(planted) == [(place, "google")]
