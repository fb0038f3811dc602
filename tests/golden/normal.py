"""Makes equal what legitimately differs between two runs of the same work, and nothing else.

Ids need none of this: `played.py` gives every run the same ones. Documents are hashed as they are.
Times and durations are in two places only: in `project_settings.json`, whose size and hash the
manifest of an export repeats, and in events. `PLAN.md` says on which day the iteration was
finished; both files repeat its hash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

TIMED = "project_settings.json"
DATED = "PLAN.md"
MANIFEST = "manifest.json"

# The offset from UTC stays: it is part of the form.
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?")
_DAY = re.compile(rb"\b\d{4}-\d\d-\d\d\b")
_DURATION = re.compile(r'("(?:processing_time|duration)_ms": ?)\d+')
# How many transactions there were depends on how the jobs fell together.
_HORIZON = re.compile(r"^(id: [0-9a-f]{8}\.\d+\.)\d+$", re.MULTILINE)
# A stage that ends before the stage in front of it has no start.
_START = re.compile(r'("started_at": ?)(null|"<time>Z")')
# A server draws it, so that clients do not come back all at once.
_RETRY = re.compile(r"^retry: \d+$", re.MULTILINE)


def hide_times(text: str) -> str:
    """Replace times, durations and positions in time by their names."""
    text = _HORIZON.sub(r"\1<horizon>", text)
    return _DURATION.sub(r'\1"<ms>"', _TIME.sub("<time>", text))


def normalise_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Replace what differs in the files that tell times, and leave all others as they are."""
    given, files = files, _hide_days(files)
    normal = {
        path: _START.sub(r'\1"<start>"', hide_times(data.decode())).encode()
        if PurePosixPath(path).name == TIMED
        else data
        for path, data in files.items()
    }
    if MANIFEST in files:
        normal[MANIFEST] = _normalise_manifest(given, files[MANIFEST].decode())
    return normal


def _hide_days(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Replace the day in the dated file, and its hash where others repeat it."""
    hidden = dict(files)
    for path, data in files.items():
        if PurePosixPath(path).name == DATED:
            hidden[path] = _DAY.sub(b"<day>", data)
            told = sha256(data).hexdigest().encode()
            for other in (one for one in files if PurePosixPath(one).name in (TIMED, MANIFEST)):
                # As long as the hash: the manifest tells the size of the timed file.
                hidden[other] = hidden[other].replace(told, b"0" * 64)
    return hidden


def _normalise_manifest(files: Mapping[str, bytes], text: str) -> bytes:
    """Check what the manifest says of the timed file, and take that out of it."""
    entries = json.loads(text)["files"]
    (entry,) = (one for one in entries if PurePosixPath(one["path"]).name == TIMED)
    data = files[entry["path"]]
    for told in (f" {len(data)},", f'"{sha256(data).hexdigest()}"'):
        assert text.count(told) == 1, f"the manifest does not say {told} once"
        text = text.replace(told, "<differs>")
    return text.encode()


def hash_files(files: Mapping[str, bytes]) -> str:
    """List files with their hashes, one per line, sorted by path."""
    normal = normalise_files(files)
    return "".join(f"{sha256(normal[path]).hexdigest()}  {path}\n" for path in sorted(normal))


def read_frame(frame: str) -> dict[str, Any]:
    """Read the fields of one frame of an event stream in their order; a comment has no name."""
    lines = _RETRY.sub("retry: <ms>", hide_times(frame)).splitlines()
    fields: dict[str, Any] = dict(line.split(": ", 1) for line in lines)
    if "data" in fields:
        fields["data"] = json.loads(fields["data"])
    return fields
