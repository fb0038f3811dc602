"""A board with 324 jobs, as a session of six seats has them: made of the board of a small one."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

SEATS = 6
BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)
# Step → how many calls each seat makes, and when the first begins and the last ends, in seconds.
CALLS = {
    ("thesis", "thesis"): (1, 0, 20),
    ("antithesis", "antithesis"): (6, 20, 60),
    ("synthesis", "pairwise"): (36, 60, 150),
    ("synthesis", "per_thesis"): (6, 150, 190),
    ("synthesis", "final"): (1, 190, 210),
    ("parenthesis", "parenthesis"): (1, 210, 230),
    ("paralysis", "paralysis"): (1, 230, 240),
}
COMBINES = 12
INTERMEDIATE = ("pairwise", "per_thesis")


def show_time(seconds: float) -> str:
    """Write a time as the API does."""
    return (BEGIN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")[:-6] + "Z"


def _id(*parts: object) -> str:
    return str(uuid5(NAMESPACE_URL, "/".join(map(str, parts))))


def build_large_board(small: dict[str, Any]) -> dict[str, Any]:
    """Build the board of a finished session with six seats from that of any session."""
    board = copy.deepcopy(small)
    first = board["session"]["seats"][0]
    board["session"] |= {
        "status": "iteration_complete",
        "current_stage": "paralysis",
        "until": "paralysis",
        "blocked_by": None,
        "created_at": show_time(-1),
        "seats": [{**first, "index": n, "is_lead": n == 1} for n in range(1, SEATS + 1)],
    }
    board |= {"jobs": list(_list_jobs()), "needs": [], "plan": [], "feedback": []}
    board["documents"] = [
        _build_document(j) for j in board["jobs"] if j["step"] not in INTERMEDIATE
    ]
    for stage in board["stages"]:
        _fill(stage, [job for job in board["jobs"] if job["stage"] == stage["slug"]])
    return board


def _fill(stage: dict[str, Any], own: list[dict[str, Any]]) -> None:
    calls = [job for job in own if job["kind"] == "call"]
    stage |= {
        "status": "complete",
        "planned": len(calls),
        "finished": len(calls),
        "running": 0,
        "failed": 0,
        "seats": list(range(1, SEATS + 1)),
        "started_at": min(job["started_at"] for job in own),
        "completed_at": max(job["completed_at"] for job in own),
    }
    for step in stage["steps"]:
        done = sum(1 for job in calls if job["step"] == step["key"])
        step |= {"planned": done, "finished": done}


def _list_jobs() -> Any:
    for (stage, step), (each, begin, end) in CALLS.items():
        for seat in range(1, SEATS + 1):
            for n in range(each):
                start = begin + (end - begin) * 0.8 * n / each + seat * 0.1
                yield _build_job(stage, step, seat, n, start, start + (end - begin) * 0.19)
    for n in range(COMBINES):
        yield _build_job("synthesis", "pairwise", 1 + n % SEATS, 100 + n, 60, 62) | {
            "kind": "combine",
            "document_id": None,
        }


def _build_job(
    stage: str, step: str, seat: int, n: int, start: float, end: float
) -> dict[str, Any]:
    return {
        "id": _id("job", step, seat, n),
        "document_id": _id("document", step, seat, n),
        "about_id": _id("document", "thesis", n % SEATS + 1, 0) if step != "thesis" else None,
        "reads": [_id("document", "thesis", n % SEATS + 1, 0)] if step != "thesis" else [],
        "seat": seat,
        "rank": n,
        "words": 0,
        "charged": "0.0012",
        "created_at": show_time(0),
        "started_at": show_time(start),
        "first_token_at": None,
        "completed_at": show_time(end),
        "stage": stage,
        "step": step,
        "kind": "call",
        "iteration": 1,
        "status": "completed",
        "phase": None,
        "waits_for": [],
        "turn": 0,
        "attempt": 1,
        "retries": 0,
        "retry_at": None,
        "reason": None,
        "errors": [],
    }


def _build_document(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": job["document_id"],
        "original_id": job["document_id"],
        "job_id": job["id"],
        "about_id": job["about_id"] if job["stage"] == "antithesis" else None,
        "origin_id": None,
        "source_ids": job["reads"],
        "labels": {},
        "title": f"The proposal of seat {job['seat']}",
        "excerpt": "It begins with what the hall has, and adds nothing that two people cannot run.",
        "words": 900,
        "size_bytes": 6000,
        "seat": job["seat"],
        "model": "alpha/m",
        "stage": job["stage"],
        "step": job["step"],
        "type": job["stage"],
        "iteration": 1,
        "rank": job["rank"],
        "version": 1,
        "versions": 1,
        "by": None,
        "input_tokens": 900,
        "output_tokens": 1200,
        "charged": job["charged"],
        "duration_ms": 4000,
        "finish_reason": "stop",
        "is_intermediate": False,
        "is_incomplete": False,
        "is_stale": False,
        "flags": [],
        "shortened": None,
        "points": None,
        "my_rating": None,
        "ratings": {"count": 0, "mean": None},
        "parts": [],
        "created_at": job["completed_at"],
    }
