"""Commands in processes of their own that need not load the program first.

One process loads it once; each command is a copy of that process. Arguments, environment, streams
and exit code are those of a command that a shell starts; only the second in which every module is
read again is saved, and a suite that gives a thousand commands saves it a thousand times. How the
program is found and loaded is met by the commands that are started in the ordinary way.
"""

from __future__ import annotations

import array
import faulthandler
import json
import os
import random
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

MESSAGE_BYTES_MAX = 200_000
STREAMS = 3
# A command for a shell: it hands its words and streams over, and ends as the command does.
SCRIPT = """\
#!{python} -IS
import array, json, os, signal, socket, sys
ours, theirs = socket.socketpair()
fds = array.array("i", [theirs.fileno(), 0, 1, 2])
order = dict(words=sys.argv[1:], environment=dict(os.environ), cwd=os.getcwd())
passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds.tobytes())]
with socket.socket(fileno={fd}) as line:
    line.sendmsg([json.dumps(order).encode()], passed)
theirs.close()
with ours.makefile() as result:
    pid = int(result.readline())
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    code = result.readline()
sys.exit(int(code or 1) % 256)
"""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed, and its exit code."""

    code: int
    stdout: str
    stderr: str

    @property
    def session(self) -> str:
        found = re.search(r"^Session (\S+)", self.stderr, re.MULTILINE)
        assert found is not None, self.stderr
        return found[1]


class CommandPool:
    """The process that has the program loaded; started by the first command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], stdin: str, *, patience_s: float
    ) -> CommandResult:
        """Run a command to its end; one that has none within this time fails."""
        ours, theirs = socket.socketpair()
        streams = [_open_stream(text) for text in (stdin, "", "")]
        order = json.dumps(
            {"words": words, "environment": dict(environment), "cwd": str(Path.cwd())}
        )
        with ours, theirs, streams[0], streams[1], streams[2]:
            fds = array.array("i", [theirs.fileno(), *(stream.fileno() for stream in streams)])
            with self._lock:
                passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds.tobytes())]
                self._open_line().sendmsg([order.encode()], passed)
            theirs.close()
            code = _await_end(ours, patience_s)
            result = CommandResult(code, _read_stream(streams[1]), _read_stream(streams[2]))
        # Whoever is told to abort says where it stood.
        assert code != -signal.SIGABRT, f"{words} came to no end: {result.stderr}"
        return result

    @contextmanager
    def install(self, folder: Path) -> Iterator[int]:
        """Put a `dialectic` into a folder that has its words run here; gives the fd it needs."""
        with self._lock:
            line = self._open_line().dup()
        script = folder / "dialectic"
        script.write_text(SCRIPT.format(python=sys.executable, fd=line.fileno()), encoding="utf-8")
        script.chmod(0o755)
        with line:
            yield line.fileno()

    def _open_line(self) -> socket.socket:
        if self._line is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                os.set_inheritable(theirs.fileno(), True)
                program = [sys.executable, __file__, str(theirs.fileno())]
                # It ends when we do: then nobody is left at the other end of the line.
                os.posix_spawn(sys.executable, program, os.environ)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES_MAX)
            self._line = ours
        return self._line


def _open_stream(text: str) -> IO[bytes]:
    stream = os.fdopen(os.memfd_create("stream"), "w+b", buffering=0)
    stream.write(text.encode())
    stream.seek(0)
    return stream


def _read_stream(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def _await_end(line: socket.socket, patience_s: float) -> int:
    line.settimeout(patience_s)
    with line.makefile("r") as result:
        pid = int(result.readline())
        try:
            return int(result.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGABRT)
    line.settimeout(None)
    return int(line.recv(20))


command_pool = CommandPool()


# -- in the process that has the program loaded ---------------------------------------------------


def _preload() -> None:
    import importlib

    from dialectic.cli.main import COMMANDS
    from dialectic.processes.loader import load_process
    from dialectic.providers.catalog import load_shipped
    from dialectic.tokens.encodings import load_encoding

    # Modules that a command loads only when it needs them.
    late = ("anyio._backends._asyncio", "uvloop")
    commands = (f"dialectic.cli.commands.{module}" for module, _ in COMMANDS.values())
    for module in (*commands, *late):
        importlib.import_module(module)
    load_encoding("o200k_base")
    load_process("standard")
    load_shipped()


def _serve(line: socket.socket) -> None:
    """Make a keeper for each command; the keeper alone knows how the command ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        order, fds, _, _ = socket.recv_fds(line, MESSAGE_BYTES_MAX, 1 + STREAMS)
        if not order:
            return
        if os.fork() == 0:
            line.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(json.loads(order), fds)
        for fd in fds:
            os.close(fd)


def _keep(order: dict[str, object], fds: list[int]) -> NoReturn:
    pid = os.fork()
    if pid == 0:
        os.close(fds[0])
        _become(order, fds[1:])
    os.write(fds[0], b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(fds[0], b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(order: dict[str, object], streams: list[int]) -> NoReturn:
    """Become the command: its words, its environment, its streams."""
    words, environment, cwd = order["words"], order["environment"], order["cwd"]
    assert isinstance(words, list)
    assert isinstance(environment, dict)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(cwd))
    random.seed()
    faulthandler.enable(2)
    sys.argv = ["dialectic", *words]
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    code = 1
    try:
        from dialectic.cli.main import main

        main()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(bool(left.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _preload()
    _serve(socket.socket(fileno=int(sys.argv[1])))
