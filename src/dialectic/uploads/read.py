"""Read an uploaded file as text: `read_upload`. It blocks, so call it in a thread.

Plain text is read here. Libraries read documents in a child process: a hostile file may be slow or
large, so the child has limited time and memory, none of our environment, and can write only into
its pipe. However it ends, the caller gets a text or one of our errors. Knows nothing of prompts or
projects.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

from dialectic.core.text import clean_text
from dialectic.errors import ConfigurationError, InvalidUpload, UploadTooLarge
from dialectic.uploads.kinds import (
    LIMITS,
    MARK_BYTES_MAX,
    Limits,
    UploadKind,
    decide_kind,
    decode_text,
)

# JSON may need six bytes for one byte of text.
_SPELLING = 6
_NOTES_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The text of a file, its kind, and notes about the text."""

    text: str
    kind: UploadKind
    notes: tuple[str, ...]


def read_upload(name: str, data: bytes, limits: Limits = LIMITS) -> Uploaded:
    """Read a file as clean text; `InvalidUpload` says why that fails."""
    shown = clean_text(name)[0][:200] or "The file"
    if len(data) > limits.file_bytes_max:
        limit = limits.file_bytes_max
        message = f"{shown} has {len(data):,} bytes; {limit:,} are allowed. Shorten it."
        raise UploadTooLarge(message, reason="too_many_bytes", subject=shown, limit=limit)
    kind = decide_kind(shown, data)
    if kind in (UploadKind.PDF, UploadKind.DOCX):
        text, found = _read_document(shown, kind, data, limits)
    else:
        # Before decoding: an overlong file may be far too long.
        if len(data) > limits.text_bytes_max + MARK_BYTES_MAX:
            raise _refuse_excess(shown, limits)
        text, found = decode_text(shown, data), []
    if len(text.encode(errors="replace")) > limits.text_bytes_max:
        raise _refuse_excess(shown, limits)
    text, removed = clean_text(text)
    if not text.strip():
        message = f"{shown} is empty. Upload a file with text."
        raise InvalidUpload(message, reason="empty", subject=shown)
    return Uploaded(text, kind, (*found, *removed))


def _refuse_excess(name: str, limits: Limits) -> UploadTooLarge:
    return UploadTooLarge(
        f"The text of {name} has more than {limits.text_bytes_max:,} bytes. Shorten it. (For"
        " prompts and resources DIALECTIC_MAX_PROMPT_BYTES allows more.)",
        reason="too_much_text",
        subject=name,
        limit=limits.text_bytes_max,
    )


def _read_document(
    name: str, kind: UploadKind, data: bytes, limits: Limits
) -> tuple[str, list[str]]:
    """Read the text of a document in a child process."""
    answer_bytes_max = _SPELLING * limits.text_bytes_max + _NOTES_BYTES
    try:
        code, out = _run_reader(kind, data, limits, answer_bytes_max)
    except OSError as error:
        # The disk is full or the process limit is reached: the file is not to blame.
        raise ConfigurationError(
            f"{name} cannot be read now: {error.strerror}. Free disk space or processes "
            "on this machine, then try again.",
            reason="no_room",
            subject=name,
        ) from None
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        message = f"{name} takes more than {limits.cpu_s} s to read. Save it without pictures."
        raise InvalidUpload(message, reason="too_slow", subject=name, limit=limits.cpu_s)
    answer = None
    if code == 0 and len(out) <= answer_bytes_max:
        with contextlib.suppress(ValueError):
            answer = json.loads(out)
    match answer:
        case {"text": str(text), "notes": list(notes)}:
            return text, [str(note) for note in notes]
        case {"reason": "too_much_text"}:
            raise _refuse_excess(name, limits)
        case {"refused": str(words), "reason": str(reason)}:
            raise InvalidUpload(f"{name} {words}", reason=reason, subject=name)
        case _:
            raise InvalidUpload(
                f"{name} cannot be read as {kind.upper()}: it is damaged, incomplete, or needs too"
                " much memory. Save it again, or upload its text.",
                reason="damaged",
                subject=name,
            )


def _run_reader(
    kind: UploadKind, data: bytes, limits: Limits, answer_bytes_max: int
) -> tuple[int, bytes]:
    """Run the child until it ends or times out; return its exit code and its output."""
    words = json.dumps(dataclasses.asdict(limits))
    with tempfile.TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        reader = subprocess.Popen(
            [sys.executable, "-m", "dialectic.uploads.child_process", kind, words],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # The path of its modules, and no key.
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"},
        )
        # The child's own limit counts CPU time; this one also counts waiting.
        killing = threading.Timer(2 * limits.cpu_s, reader.kill)
        killing.start()
        try:
            assert reader.stdout is not None
            with reader.stdout as pipe:
                out = pipe.read(answer_bytes_max + 1)
            return reader.wait(), out
        finally:
            killing.cancel()
            reader.kill()
            reader.wait()
