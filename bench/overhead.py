"""P1: what the engine itself costs for one durable job, with a provider that takes no time."""

from __future__ import annotations

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

JOBS = 60
WARM_UP = 10
TEXT_BYTES = 3_700  # about what an offline model writes in answer to the shortest prompt
TIMES_TWO_COMMITS_MAX = 3.0

OURS = "dialectic"
LIMIT = "two commits"
# Raw PgQueuer is what the product stands on: it cannot be quicker than that.
PEERS = ("Procrastinate", "DBOS", "LangGraph")


def _contender(name: str, module: str) -> Contender:
    def run(server: Server) -> Samples:
        options = {"jobs": JOBS, "warm_up": WARM_UP, "text_bytes": TEXT_BYTES}
        found: Samples = server.ask(module, "overhead", options)
        return found

    return Contender(name, run)


def _two_commits(server: Server) -> Samples:
    pairs_ms = server.ask("bench.limits", "two_commits", {"jobs": JOBS * 3})["pair_ms"]
    return {"claim_to_done_ms": pairs_ms}


CLAIM_TO_DONE = Column("claim → done p50 ms", "claim_to_done_ms")
BACKLOG = Column("ms per job of a backlog", "backlog_ms")


def judge(figures: Figures) -> list[Verdict]:
    ratio = figures.ratio(OURS, LIMIT)
    verdicts = [
        judge_at_most(
            f"claim → saved at most {TIMES_TWO_COMMITS_MAX:g} × two commits of the same run",
            ratio,
            TIMES_TWO_COMMITS_MAX,
            " ×",
        )
    ]
    for column in (CLAIM_TO_DONE, BACKLOG):
        for peer in PEERS:
            found = figures.ratio(OURS, peer, column)
            aim = f"{column.head}: below {peer}"
            verdicts.append(judge_at_most(aim, found, 1.0, f" of {peer}"))
    return verdicts


MEASURE = Measure(
    name="overhead",
    title="P1 Engine overhead per durable job",
    contenders=(
        Contender(LIMIT, _two_commits),
        _contender("PgQueuer alone", "bench.peers.pgqueuer_raw"),
        _contender(OURS, "bench.ours"),
        _contender("Procrastinate", "bench.peers.procrastinate_peer"),
        _contender("DBOS", "bench.peers.dbos_peer"),
        _contender("LangGraph", "bench.peers.langgraph_peer"),
    ),
    columns=(
        CLAIM_TO_DONE,
        Column("p95", "claim_to_done_ms", quantile=0.95),
        Column("submit → done p50 ms", "submit_to_done_ms"),
        BACKLOG,
        Column("claim", "claim_ms"),
        Column("gather", "gather_ms"),
        Column("write", "write_ms"),
        Column("commit", "commit_ms"),
        Column("files", "files_ms"),
        Column("mark", "mark_ms"),
        Column("(model)", "provider_ms"),
    ),
    judge=judge,
    ratios_to=(LIMIT, "PgQueuer alone"),
    notes=(
        "jobs one at a time; done means that no crash can undo it: our saved turn, a recorded end "
        "elsewhere",
        "ours writes a document, the provider's record of it, a contribution and news in that "
        "commit; a peer writes one row or one checkpoint with a text as long as the document",
        "the offline model's own time is taken out",
        "a backlog counts all there is from one job to the next: the queue, and for ours the two "
        "files that are flushed to disk after the commit (files, mark)",
        "DBOS and LangGraph are called in a loop: they have no queue in between",
    ),
)
