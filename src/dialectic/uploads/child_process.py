"""The child process that reads one document: `python -m dialectic.uploads.child_process`.

It reads the document from stdin and writes its answer to stdout as JSON. An error in a library ends
the process, and the parent reports that. Knows only the formats and its limits.
"""

from __future__ import annotations

import contextlib
import json
import logging
import resource
import sys
from typing import Any

from dialectic.uploads.formats import Refused, read_docx, read_pdf
from dialectic.uploads.kinds import Limits, UploadKind


def main(kind: str, limits_json: str) -> None:
    """Read the document, and return its text or the reason why it cannot be read."""
    limits = Limits(**json.loads(limits_json))
    _bind(limits)
    # Libraries warn about every oddity of a file.
    logging.disable()
    read = read_pdf if kind == UploadKind.PDF else read_docx
    try:
        text, notes = read(sys.stdin.buffer.read(), limits)
        answer: dict[str, Any] = {"text": text, "notes": notes}
    except Refused as error:
        answer = {"refused": str(error), "reason": error.reason}
    sys.stdout.buffer.write(json.dumps(answer).encode())
    sys.stdout.flush()


def _bind(limits: Limits) -> None:
    """Limit the resources of this process."""
    for what, most in (
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.memory_bytes_max),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # Not every system has every limit, and a limit cannot be raised.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main(*sys.argv[1:])
