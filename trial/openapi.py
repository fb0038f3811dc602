"""Call every operation of a running server with a client that is generated from its description.

`make openapi-check`: the generator, openapi-python-client, is in an environment of its own, whose
Python is the first argument. It must give no warning. Then `trial.generated_client` calls each
operation, optional bodies left out. Exits with 0 if every call could be made and was answered as
described.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dialectic.api.app import build_api
from dialectic.settings import PREFIX, inherited_environment

STOP_S = 60.0
GENERATE = ["-m", "openapi_python_client", "generate", "--fail-on-warning"]


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """Run the product's server on a home of its own; yield its URL."""
    environment = {k: v for k, v in inherited_environment().items() if not k.startswith(PREFIX)}
    with subprocess.Popen(
        [sys.executable, "-m", "dialectic", "serve", "--port", "0"],
        env=environment | {f"{PREFIX}HOME": str(home), f"{PREFIX}LOG_LEVEL": "ERROR"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                sys.exit("The server did not start: dialectic serve tells why.")
            yield url
        finally:
            server.terminate()
            server.wait(STOP_S)


def main(python: str) -> int:
    """Generate a client and let it call a server; return the exit code."""
    # The environment as it was named: its link must not be resolved, or its packages are lost.
    tools = str(Path(python).absolute().parent)
    with tempfile.TemporaryDirectory(prefix="dialectic-openapi-") as folder:
        document, client = Path(folder) / "openapi.json", Path(folder) / "client"
        document.write_text(json.dumps(build_api().openapi()))
        # Its formatters are beside it.
        environment = inherited_environment()
        environment["PATH"] = f"{tools}:{environment.get('PATH', '')}"
        command = [python, *GENERATE, "--path", str(document), "--output-path", str(client)]
        subprocess.run(command, env=environment, check=True)
        with serving(Path(folder) / "home") as url:
            caller = [python, "-m", "trial.generated_client", str(document), str(client), url]
            return subprocess.run(caller, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
