"""What money costs in time: a hold and its settlement, alone and side by side, and the audit."""

from __future__ import annotations

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

CALLS = 1_600
LANES = 16
TRANSFERS = 1_000_000
VERIFY_MAX_S = 5.0
FILL_MAX_S = 600.0

ALONE, TOGETHER = "one after another", f"{LANES} side by side, one wallet"
AUDIT = f"audit of {TRANSFERS:,} transfers"
VERIFY = Column("verify s", "verify_s")

# Calls to a provider that takes its time: by themselves, and in the whole path of a turn.
PATH_CALLS = 640
LATENCY_S = 0.2
TEXT_BYTES = 3_700
ADDED_MAX_MS = 3.0
WAIT = f"calls of {LATENCY_S * 1000:.0f} ms, {LANES} side by side, one wallet"
WAIT_FREE = "such calls without the ledger"
PATH = f"whole turns, {LANES} side by side, {LATENCY_S * 1000:.0f} ms a call"
FREE = "such turns without the ledger"
TURN = Column("turn ms", "turn_ms")


def _pay(lanes: int) -> Contender:
    def run(server: Server) -> Samples:
        found: Samples = server.ask("bench.till", "pay", {"calls": CALLS, "lanes": lanes})
        return found

    return Contender(ALONE if lanes == 1 else TOGETHER, run)


def _commits(server: Server) -> Samples:
    found = server.ask("bench.limits", "two_commits", {"jobs": CALLS})
    return {"reserve_ms": [pair / 2 for pair in found["pair_ms"]]}


def _verify(server: Server) -> Samples:
    found: Samples = server.ask(
        "bench.till", "verify", {"transfers": TRANSFERS}, timeout_s=FILL_MAX_S
    )
    return found


def _path(name: str, action: str, *, with_ledger: bool) -> Contender:
    options = {
        "calls": PATH_CALLS,
        "lanes": LANES,
        "latency_s": LATENCY_S,
        "text_bytes": TEXT_BYTES,
        "with_ledger": with_ledger,
    }

    def run(server: Server) -> Samples:
        found: Samples = server.ask("bench.till", action, options)
        return found

    return Contender(name, run)


def judge(figures: Figures) -> list[Verdict]:
    aim = f"{AUDIT} in at most {VERIFY_MAX_S:g} s"
    verdicts = [judge_at_most(aim, figures.value(AUDIT, VERIFY), VERIFY_MAX_S, " s")]
    aim = f"hold and settlement add at most {ADDED_MAX_MS:g} ms at p50 to"
    for paid, free, what in ((WAIT, WAIT_FREE, "a call"), (PATH, FREE, "a whole turn")):
        added = figures.difference(paid, free, TURN)
        verdicts.append(judge_at_most(f"{aim} {what}", added, ADDED_MAX_MS, " ms"))
    return verdicts


MEASURE = Measure(
    name="money",
    title="The ledger: a hold, its settlement, and the audit",
    contenders=(
        Contender("one bare row a commit", _commits),
        _pay(1),
        _pay(LANES),
        Contender(AUDIT, _verify),
        _path(WAIT, "wait", with_ledger=True),
        _path(WAIT_FREE, "wait", with_ledger=False),
        _path(PATH, "calls", with_ledger=True),
        _path(FREE, "calls", with_ledger=False),
    ),
    columns=(
        Column("hold ms", "reserve_ms"),
        Column("p99", "reserve_ms", quantile=0.99),
        Column("settle ms", "settle_ms"),
        Column("p99", "settle_ms", quantile=0.99),
        Column("calls/s", "calls_per_s", digits=0),
        VERIFY,
        TURN,
        Column("for money", "money_ms"),
    ),
    judge=judge,
    rounds_max=3,
    notes=(
        f"{CALLS} calls a round, each a hold and a settlement in a commit of its own, one session; "
        "the audit afterwards finds nothing",
        f"calls of {LATENCY_S * 1000:.0f} ms: {PATH_CALLS} with an answer of one row, kept in one "
        "commit; each takes up to a fifth more or less; without the time of the provider",
        f"whole turns: {PATH_CALLS} jobs of real sessions by the real worker, from claim to files "
        "in storage, without the time of the provider; `for money` is the part of it in hold and "
        "settle, by a clock around them",
    ),
)
