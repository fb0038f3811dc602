"""DBOS: durable workflows whose steps are checkpointed in PostgreSQL; its queues are polled."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from bench.child import Options, build_prose, build_text, mark_cpu, say, serve, wait_for_go
from bench.graph import read_calls

QUEUE = "bench"
POLL_S = 0.02  # its default of a second would measure the wait alone
HOLD_S = 600.0


def launch(options: Options, *, executor: str = "one", listens: bool = True) -> None:
    """Start its engine in this process; it takes work from queues unless it is told not to."""
    config = DBOSConfig(
        name="bench",
        system_database_url=options["url"],
        application_version="bench",
        executor_id=executor,
        log_level="ERROR",
        sys_db_pool_size=options.get("pool", 10),
    )
    DBOS(config=config)
    if not listens:
        DBOS.listen_queues([])
    DBOS.launch()


def register_queue(concurrency: int) -> None:
    DBOS.register_queue(QUEUE, worker_concurrency=concurrency, polling_interval_sec=POLL_S)


def wait_for_stop() -> None:
    """Wait for SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while not stop.wait(0.5):
        pass


def prepare(options: Options) -> None:
    """Install its schema."""
    launch(options)
    DBOS.destroy()


def overhead(options: Options) -> dict[str, list[float]]:
    """Time workflows of one step, called one after the other in this process."""
    text = build_text(options["text_bytes"])

    def write(number: int) -> str:
        return f"{number} {text}"

    step = DBOS.step()(write)

    def one_step(number: int) -> str:
        result: str = step(number)
        return result

    workflow = DBOS.workflow()(one_step)
    launch(options)
    samples_ms = []
    for number in range(options["warm_up"] + options["jobs"]):
        started = time.perf_counter()
        workflow(number)
        samples_ms.append((time.perf_counter() - started) * 1000)
    DBOS.destroy()
    measured = samples_ms[options["warm_up"] :]
    # There is no queue in between: submitting is claiming, and a backlog is a loop.
    return {
        "claim_to_done_ms": measured,
        "submit_to_done_ms": measured,
        "backlog_ms": [sum(measured) / len(measured)],
    }


def nothing(number: int) -> None:
    """Do nothing: a workflow without a step."""
    del number


def fill(options: Options) -> None:
    """Put workflows into the queue."""
    workflow = DBOS.workflow()(nothing)
    launch(options, listens=False)
    register_queue(options["concurrency"])
    for number in range(options["jobs"]):
        DBOS.enqueue_workflow(QUEUE, workflow, number)
    DBOS.destroy()


def work(options: Options) -> None:
    """Take workflows that do nothing, until told to stop."""
    DBOS.workflow()(nothing)
    wait_for_go()
    launch(options, executor=options["name"])
    mark_cpu()
    wait_for_stop()
    DBOS.destroy()


def hold(options: Options) -> None:
    """Keep workflows, or report those that come."""

    async def keep_or_report(number: int) -> None:
        say({"job": str(number), "at": time.time()})
        if options["keeps"]:
            await asyncio.sleep(HOLD_S)

    workflow = DBOS.workflow()(keep_or_report)
    launch(options, executor=options["name"])
    register_queue(50)
    if options["enqueues"]:
        asyncio.run(_enqueue(workflow, options["enqueues"]))
    say({"ready": True})
    wait_for_stop()
    DBOS.destroy()


async def _enqueue(workflow: Any, count: int) -> None:
    for number in range(count):
        await DBOS.enqueue_workflow_async(QUEUE, workflow, number)


def fan_in(options: Options) -> dict[str, list[float]]:
    """Time from the end of the last of many children until their parent has all results."""
    ended: list[float] = []
    children, through_queue = options["children"], options["through_queue"]

    async def child(number: int) -> int:
        ended.append(time.perf_counter())
        return number

    child_workflow = DBOS.workflow()(child)

    async def parent() -> float:
        if through_queue:
            handles = [
                await DBOS.enqueue_workflow_async(QUEUE, child_workflow, n) for n in range(children)
            ]
        else:
            handles = [await DBOS.start_workflow_async(child_workflow, n) for n in range(children)]
        for handle in handles:
            await handle.get_result(polling_interval_sec=POLL_S)
        return time.perf_counter()

    parent_workflow = DBOS.workflow()(parent)
    launch(options)
    register_queue(50)
    samples_ms = []

    async def main() -> None:
        for _ in range(options["times"]):
            ended.clear()
            resumed: float = await parent_workflow()
            samples_ms.append((resumed - max(ended)) * 1000)

    asyncio.run(main())
    DBOS.destroy()
    return {"woken_ms": samples_ms}


def dialectic(options: Options) -> dict[str, float]:
    """Time a whole dialectic: a workflow per call, started step after step or all at once."""
    calls = read_calls(options["calls"])
    text = build_text(options["text_bytes"])

    async def ask(latency_s: float, inputs: list[str]) -> str:
        del inputs
        await asyncio.sleep(latency_s)
        return text

    step = DBOS.step()(ask)

    async def turn(latency_s: float, inputs: list[str]) -> str:
        written: str = await step(latency_s, inputs)
        return written

    async def turn_by_inputs(latency_s: float, needs: list[str]) -> str:
        written: str = await step(latency_s, [await _read(need) for need in needs])
        return written

    turn_workflow = DBOS.workflow()(turn)
    waiting_workflow = DBOS.workflow()(turn_by_inputs)

    async def step_after_step() -> int:
        texts: dict[str, str] = {}
        for level in sorted({call.level for call in calls}):
            handles = {
                call.key: await DBOS.enqueue_workflow_async(
                    QUEUE, turn_workflow, call.latency_s, [texts[need] for need in call.needs]
                )
                for call in calls
                if call.level == level
            }
            for key, handle in handles.items():
                texts[key] = await handle.get_result(polling_interval_sec=POLL_S)
        return len(texts)

    async def by_inputs() -> int:
        handles = []
        for call in calls:
            with SetWorkflowID(call.key):
                handle = await DBOS.start_workflow_async(
                    waiting_workflow, call.latency_s, list(call.needs)
                )
            handles.append(handle)
        return len([await handle.get_result(polling_interval_sec=POLL_S) for handle in handles])

    parent = DBOS.workflow()(by_inputs if options["by_inputs"] else step_after_step)
    launch(options)
    register_queue(50)
    walls_s: list[float] = []

    async def main() -> None:
        started = time.perf_counter()
        assert await parent() == len(calls)
        walls_s.append(time.perf_counter() - started)

    asyncio.run(main())
    DBOS.destroy()
    return {"wall_s": walls_s[0]}


async def _read(key: str) -> str:
    """Wait for what another workflow writes."""
    handle = await DBOS.retrieve_workflow_async(key)
    written: str = await handle.get_result(polling_interval_sec=POLL_S)
    return written


def capacity(options: Options) -> dict[str, float]:
    """Count turns, and the processor time of this process, with so many in flight."""
    texts = {name: build_prose(size, 1) for name, size in options["kept_bytes"].items()}
    is_whole = "dialectics" in options
    kept = {"document": texts["document"]} if is_whole else texts
    calls = read_calls(options.get("calls", ()))

    async def ask(inputs: list[str]) -> dict[str, str]:
        del inputs
        await asyncio.sleep(options["latency_s"])
        return kept

    step = DBOS.step()(ask)

    async def turn(needs: list[str]) -> int:
        # The step keeps the texts; a result of the workflow would keep them a second time.
        return len((await step(needs))["document"])

    turn_workflow = DBOS.workflow()(turn)

    async def step_after_step() -> int:
        done = 0
        for level in sorted({call.level for call in calls}):
            handles = [
                await DBOS.start_workflow_async(turn_workflow, list(call.needs))
                for call in calls
                if call.level == level
            ]
            done += len([await handle.get_result() for handle in handles])
        return done

    dialectic_workflow = DBOS.workflow()(step_after_step)
    launch(options, listens=False)
    places = asyncio.Semaphore(options["in_flight"])

    async def run() -> None:
        async with places:
            await (dialectic_workflow() if is_whole else turn_workflow([]))

    async def main() -> dict[str, float]:
        runs = options["dialectics"] if is_whole else options["turns"]
        await asyncio.gather(*(run() for _ in range(1 if is_whole else options["warm_up"])))
        await asyncio.to_thread(wait_for_go)
        started, cpu_s = time.perf_counter(), time.process_time()
        await asyncio.gather(*(run() for _ in range(runs)))
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
        turns = runs * (len(calls) if is_whole else 1)
        say({"turns": turns, "cpu_s": cpu_s})
        return {"wall_s": wall_s, "bytes": sum(map(len, kept.values()))}

    found = asyncio.run(main())
    DBOS.destroy()
    return found


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "overhead": overhead,
    "fill": fill,
    "work": work,
    "hold": hold,
    "fan_in": fan_in,
    "dialectic": dialectic,
    "capacity": capacity,
}

if __name__ == "__main__":
    serve(ACTIONS)
