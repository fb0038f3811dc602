"""P11: what a job and a look at a session cost while the tables fill."""

from __future__ import annotations

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

SIZES = (1_000, 10_000, 100_000)
JOBS = 80
ROUND_MAX_S = 300.0
PER_DECADE_MAX = 1.10

OURS = "dialectic"
COLUMNS = {
    (what, size): Column(f"{head}, {size:,} jobs", f"{what}_ms_{size}")
    for what, head in (("job", "job ms"), ("turn", "turn ms"), ("view", "look ms"))
    for size in SIZES
}


def _run(server: Server) -> Samples:
    options = {"sizes": SIZES, "jobs": JOBS}
    found: Samples = server.ask("bench.ours", "growth", options, timeout_s=ROUND_MAX_S)
    return found


def judge(figures: Figures) -> list[Verdict]:
    decades = len(SIZES) - 1
    verdicts = []
    for what, head in (("job", "a job"), ("turn", "a turn"), ("view", "a look")):
        first, last = (figures.value(OURS, COLUMNS[what, size]) for size in (SIZES[0], SIZES[-1]))
        slope = None if not first or last is None else (last / first) ** (1 / decades)
        aim = f"{head}: at most {PER_DECADE_MAX:g} × for ten times as many jobs"
        verdicts.append(judge_at_most(aim, slope, PER_DECADE_MAX, " ×"))
    return verdicts


MEASURE = Measure(
    name="growth",
    title="P11 Cost of a job and of a look while the tables fill",
    contenders=(Contender(OURS, _run),),
    columns=tuple(COLUMNS.values()),
    judge=judge,
    notes=(
        "a finished session of three models with all its jobs, documents and holds is copied until "
        "there are so many jobs; the tables are analysed, as the server does itself after a while",
        "a job does nothing, a turn is a document by an offline model, with that model's own time: "
        "both from the wish to the recorded end, one at a time; a look is all that "
        "is shown of a session, and a page of ten of the list of sessions",
    ),
)
