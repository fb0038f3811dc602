"""LangGraph with its PostgreSQL checkpointer, every step saved before the next one begins."""

from __future__ import annotations

import asyncio
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

from bench.child import Options, build_prose, build_text, say, serve, wait_for_go
from bench.graph import Call, read_calls

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


class Dialectic(TypedDict):
    """What a whole dialectic knows: every document by its name."""

    texts: Annotated[dict[str, str], operator.or_]


class Turn(TypedDict):
    """What one call is given."""

    key: str
    latency_s: float
    inputs: list[str]


async def dialectic(options: Options) -> dict[str, float]:
    """Time a whole dialectic: each step fans out with `Send`, and a node gathers what it made."""
    graph = build_dialectic(options, build_text(options["text_bytes"]))
    async with open_saver(options["url"]) as saver:
        compiled = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": str(uuid4())}}
        started = time.perf_counter()
        done = await compiled.ainvoke({"texts": {}}, config, durability="sync")
        wall_s = time.perf_counter() - started
    assert len(done["texts"]) == len(options["calls"])
    return {"wall_s": wall_s}


def build_dialectic(options: Options, text: Any) -> Any:
    """Build the graph of a whole dialectic, whose calls all write the same."""
    levels: dict[int, list[Call]] = {}
    for call in read_calls(options["calls"]):
        levels.setdefault(call.level, []).append(call)

    async def turn(state: Turn) -> dict[str, dict[str, str]]:
        await asyncio.sleep(state["latency_s"])
        return {"texts": {state["key"]: text}}

    async def gather(_state: Dialectic) -> dict[str, dict[str, str]]:
        return {"texts": {}}

    def spread(level: int) -> Any:
        def send(state: Dialectic) -> list[Any]:
            return [
                Send(
                    f"turn_{level}",
                    {
                        "key": call.key,
                        "latency_s": call.latency_s,
                        "inputs": [state["texts"][need] for need in call.needs],
                    },
                )
                for call in levels[level]
            ]

        return send

    graph: Any = StateGraph(Dialectic)
    before = START
    for level in levels:
        graph.add_node(f"turn_{level}", turn)
        graph.add_node(f"gather_{level}", gather)
        graph.add_conditional_edges(before, spread(level), [f"turn_{level}"])
        graph.add_edge(f"turn_{level}", f"gather_{level}")
        before = f"gather_{level}"
    graph.add_edge(before, END)
    return graph


class KeptState(TypedDict):
    """What a turn keeps: its document, the record of its call, what is cut out of the document."""

    texts: dict[str, str]


async def capacity(options: Options) -> dict[str, float]:
    """Count turns, and the processor time of this process, with so many in flight."""
    texts = {name: build_prose(size, 1) for name, size in options["kept_bytes"].items()}
    is_whole = "dialectics" in options
    graph: Any
    if is_whole:
        graph = build_dialectic(options, texts["document"])
        given: Any = {"texts": {}}
        runs, warm_up, at_once = options["dialectics"], 1, options["dialectics"]
    else:

        async def node(_state: KeptState) -> dict[str, dict[str, str]]:
            await asyncio.sleep(options["latency_s"])
            return {"texts": texts}

        graph = StateGraph(KeptState)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        given = {"texts": {}}
        runs, warm_up, at_once = options["turns"], options["warm_up"], options["in_flight"]
    places = asyncio.Semaphore(at_once)
    async with open_saver(options["url"]) as saver:
        compiled = graph.compile(checkpointer=saver)

        async def run() -> None:
            async with places:
                config = {"configurable": {"thread_id": str(uuid4())}}
                await compiled.ainvoke(given, config, durability="sync")

        await asyncio.gather(*(run() for _ in range(warm_up)))
        await asyncio.to_thread(wait_for_go)
        started, cpu_s = time.perf_counter(), time.process_time()
        await asyncio.gather(*(run() for _ in range(runs)))
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
    turns = runs * (len(options["calls"]) if is_whole else 1)
    size = len(texts["document"]) if is_whole else sum(map(len, texts.values()))
    say({"turns": turns, "cpu_s": cpu_s})
    return {"wall_s": wall_s, "bytes": size}


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "overhead": overhead,
    "fan_in": fan_in,
    "dialectic": dialectic,
    "capacity": capacity,
}

if __name__ == "__main__":
    serve(ACTIONS)
