"""What the product is asked to do: `python -m bench.ours ACTION OPTIONS`."""

from __future__ import annotations

from typing import Any

from bench.child import serve
from bench.ours.capacity import capacity
from bench.ours.dialectic import dialectic
from bench.ours.fan_in import fan_in
from bench.ours.growth import growth
from bench.ours.memory import server_memory, worker_memory
from bench.ours.outcome import outcome
from bench.ours.overhead import overhead
from bench.ours.queue import generate_jobs, hold, prepare, work

ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "overhead": overhead,
    "fill": generate_jobs,
    "work": work,
    "hold": hold,
    "fan_in": fan_in,
    "capacity": capacity,
    "dialectic": dialectic,
    "outcome": outcome,
    "growth": growth,
    "server_memory": server_memory,
    "worker_memory": worker_memory,
}

if __name__ == "__main__":
    serve(ACTIONS)
