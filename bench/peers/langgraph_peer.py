"""LangGraph with its PostgreSQL checkpointer, every step saved before the next one begins."""

from __future__ import annotations

import operator
import time
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.child import Options, build_text, serve

POOL_SIZE = 10


@asynccontextmanager
async def open_saver(url: str) -> Any:
    """Open its checkpointer over a pool as large as the product's."""
    arguments = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(
        url, min_size=1, max_size=POOL_SIZE, kwargs=arguments, open=False
    ) as pool:
        yield AsyncPostgresSaver(pool)


async def prepare(options: Options) -> None:
    """Install its schema."""
    async with open_saver(options["url"]) as saver:
        await saver.setup()


class OneState(TypedDict):
    """What the graph of one node knows."""

    text: str


async def overhead(options: Options) -> dict[str, list[float]]:
    """Time runs of a graph of one node, each a thread of its own, one after the other."""
    text = build_text(options["text_bytes"])

    async def node(_state: OneState) -> dict[str, str]:
        return {"text": text}

    graph: Any = StateGraph(OneState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    samples_ms = []
    async with open_saver(options["url"]) as saver:
        compiled = graph.compile(checkpointer=saver)
        for _ in range(options["warm_up"] + options["jobs"]):
            config = {"configurable": {"thread_id": str(uuid4())}}
            started = time.perf_counter()
            await compiled.ainvoke({"text": ""}, config, durability="sync")
            samples_ms.append((time.perf_counter() - started) * 1000)
    measured = samples_ms[options["warm_up"] :]
    # It has no queue: submitting is claiming, and a backlog is a loop.
    return {
        "claim_to_done_ms": measured,
        "submit_to_done_ms": measured,
        "backlog_ms": [sum(measured) / len(measured)],
    }


class ManyState(TypedDict):
    """What the graph of many children knows."""

    results: Annotated[list[int], operator.add]


async def fan_in(options: Options) -> dict[str, list[float]]:
    """Time from the end of the last of many `Send` children until the node behind them runs."""
    ended: list[float] = []
    resumed: list[float] = []

    async def plan(_state: ManyState) -> dict[str, list[int]]:
        return {"results": []}

    def spread(_state: ManyState) -> list[Any]:
        return [Send("child", {"results": [n]}) for n in range(options["children"])]

    async def child(state: ManyState) -> dict[str, list[int]]:
        ended.append(time.perf_counter())
        return {"results": state["results"]}

    async def gather(_state: ManyState) -> dict[str, list[int]]:
        resumed.append(time.perf_counter())
        return {"results": []}

    graph: Any = StateGraph(ManyState)
    for name, node in (("plan", plan), ("child", child), ("gather", gather)):
        graph.add_node(name, node)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", spread, ["child"])
    graph.add_edge("child", "gather")
    graph.add_edge("gather", END)
    samples_ms = []
    async with open_saver(options["url"]) as saver:
        compiled = graph.compile(checkpointer=saver)
        for _ in range(options["times"]):
            ended.clear()
            resumed.clear()
            config = {"configurable": {"thread_id": str(uuid4())}}
            await compiled.ainvoke({"results": []}, config, durability="sync")
            samples_ms.append((resumed[0] - max(ended)) * 1000)
    return {"woken_ms": samples_ms}


ACTIONS: dict[str, Any] = {"prepare": prepare, "overhead": overhead, "fan_in": fan_in}

if __name__ == "__main__":
    serve(ACTIONS)
