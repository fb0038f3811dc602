"""llama.cpp's own HTTP server with a small model. Knows nothing of Dialectic.

Usage: python -m trial.server WEIGHTS SLOTS. Prints the address it listens at, and serves until its
standard input ends, also if the process that started it is dead.
"""

from __future__ import annotations

import importlib
import sys

CONTEXT_TOKENS = 8192
"""What the model was trained to read, for each of those who ask at the same time."""


def main(weights: str, slots: int) -> None:
    """Serve on a port that the system chooses."""
    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = weights
    # Mapped pages of a large file are read again and again where memory is shared by many.
    params.use_mmap = False
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
    main(sys.argv[1], int(sys.argv[2]))
