"""Workers die at each failpoint while they pay for calls that are made over HTTP.

The simulator of providers counts what arrives there. Each worker has one call at a time, so that a
death has one call to account for: for one that was never sent nothing is held, one whose answer was
not saved is lost, one that was saved is paid for. Calls that arrived are those that are posted or
lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import uuid4

import asyncpg

from chaos.crew import Crew, Member, open_crew
from chaos.lab import Lab, Stuck, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.engine import POINTS
from dialectic.ledger import audit, wallets
from dialectic.ledger.wallets import Deposit
from dialectic.processes.loader import load_process
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic_simulator import Simulator, open_simulator

MODEL = "sim/writer"
MODELS_MAX = 10
LEASE_S = 1.2
AT_A_TIME = 6
PATIENCE_S = 90.0
NEVER_S = 3600.0
PLENTY = 10**9
SCRIPT = {
    "models": {"*": {"tokenizer": "chars:4"}},
    "default": {"text": "The answer is short, and it says all that is needed."},
}
CONFIG = """
[endpoints.sim]
kind = "openai"
base_url = "{url}"

[endpoints.sim.models.writer]
context_window_tokens = 128000
max_output_tokens = 4000
input_usd_per_million = 1
output_usd_per_million = 2
tokenizer = "chars:4"
"""
# What a death at each point leaves of the money that was set aside for the call.
LEAVES = {"after_reply": "lost", "before_commit": "lost"}
# Where a death leaves the job to another one.
UNFINISHED = ("after_claim", "before_send", *LEAVES)


async def run(report: Report, kills: int, sabotage: Sabotage = NONE) -> None:
    """Let so many workers die at each point, let others end the work, and hold it against calls."""
    async with (
        open_lab(report, sabotage=sabotage) as lab,
        open_simulator(SCRIPT) as simulator,
        # The armed leave the files of others alone: they die of their own call or not at all.
        open_crew(lab, left_behind_s=NEVER_S) as crew,
    ):
        await _prepare(lab, simulator, jobs=2 * kills * len(POINTS))
        waiting = [point for point in POINTS for _ in range(kills)]
        for start in range(0, len(waiting), AT_A_TIME):
            wave = waiting[start : start + AT_A_TIME]
            await _lose(crew, wave)
            report.say(f"{', '.join(wave)} died, {len(simulator.log.calls)} calls")
        crew.left_behind_s = 1.0
        for _ in range(2):
            crew.hire(lease_s=LEASE_S, latency_ms=(0, 0))
        if not await lab.wait_until_idle(patience_s=PATIENCE_S):
            raise Stuck(f"paid calls: not all done within {PATIENCE_S:g} s")
        await _wait_until_resolved(lab)
        await crew.stop()
        report.expect_none("errors in the logs of those who pay", crew.faults)
        await _check(lab, simulator, kills)


async def _prepare(lab: Lab, simulator: Simulator, *, jobs: int) -> None:
    """Declare the model, put money in and ask for so many documents."""
    config = CONFIG.format(url=simulator.base_url("openai"))
    (lab.home / "config.toml").write_text(config)
    settings = Settings.load({"DIALECTIC_HOME": str(lab.home)})
    lab.engine = replace(lab.engine, catalog=build_catalog(settings))
    account = lab.account
    deposit = Deposit(key=str(uuid4()), amount_credits=PLENTY)
    await lab.engine.db.transact(
        account.tenant_id, lambda c: wallets.top_up(c, account.wallet_id, deposit)
    )
    process = load_process("standard")
    # The simulator's answers have no headings; each document is one call.
    process = replace(process, file=process.file.model_copy(update={"repair_prompt_name": None}))
    while jobs > 0:
        models = [MODEL] * min(jobs, MODELS_MAX)
        ask = RunRequest(
            prompt="A small library lends tools to its neighbours.",
            models=models,
            process=process,
            until=process.order[0].slug,
        )
        begun = await Tenant(lab.engine, account).run(create_session, ask)
        await Tenant(lab.engine, account).run(sessions.generate, begun.session_id)
        jobs -= len(models)


async def _lose(crew: Crew, wave: list[str]) -> None:
    """Start one armed worker for each point and wait until all of them have died of it."""
    armed: list[Member] = [
        crew.hire(
            concurrency=1,
            latency_ms=(0, 0),
            lease_s=LEASE_S,
            failpoints=f"{point}=kill@1",
        )
        for point in wave
    ]

    async def are_dead() -> bool:
        return not any(member.is_alive for member in armed)

    await crew.lab.wait_for("armed workers that die", are_dead)
    crew.bury_the_dead()


async def _wait_until_resolved(lab: Lab) -> None:
    """Wait until the sweeper has come by whatever the dead have left."""

    async def is_resolved() -> bool:
        query = "select count(*) from dialectic.token_wallet_holds where state = 'pending'"
        return bool(await lab.fetchval(query) == 0)

    await lab.wait_for("holds that are resolved", is_resolved)


NOT_PAID_ONCE = """
  select format('contribution %s has %s posted holds', c.id, count(h.hold_key))
  from dialectic.dialectic_contributions c
  left join dialectic.token_wallet_holds h
    on h.tenant_id = c.tenant_id and h.answer_id = c.id and h.state = 'posted'
  group by c.id having count(h.hold_key) <> 1
"""
LOST_LEASES = "select sum(j.lost_count) from dialectic.dialectic_generation_jobs j"
STATES = "select state, count(*) as count from dialectic.token_wallet_holds group by 1"
UNPAID = """
  select $1 - w.balance_credits - coalesce((
    select sum(h.charged_credits) from dialectic.token_wallet_holds h), 0)
  from dialectic.token_wallets w where w.id = $2
"""


async def check_books(lab: Lab) -> None:
    """Look at everyone's books."""
    connection = await asyncpg.connect(
        lab.address.url, server_settings={"search_path": "dialectic"}
    )
    try:
        async with connection.transaction():
            found = await audit.verify(connection)
    finally:
        await connection.close()
    lab.report.expect_none("breaches that the audit found", found)


async def _check(lab: Lab, simulator: Simulator, kills: int) -> None:
    report = lab.report
    holds = Counter({row["state"]: row["count"] for row in await lab.fetch(STATES)})
    report.note("paid calls", f"{len(simulator.log.calls)} arrived; holds: {dict(holds)}")
    report.expect(
        "calls that arrived, and holds posted or lost",
        (len(simulator.log.calls), holds["posted"] + holds["lost"]),
        (len(simulator.log.calls),) * 2,
    )
    # One that lives loses its job, too, if the machine has no time for it within its short lease.
    starved = int(await lab.fetchval(LOST_LEASES)) - kills * len(UNFINISHED)
    report.note("jobs lost by those who lived", starved)
    for state in ("voided", "lost"):
        wanted = kills * sum(left == state for left in LEAVES.values())
        report.expect_at_least(f"holds that are {state}", holds[state], wanted)
        report.expect_at_most(f"holds that are {state}", holds[state], wanted + starved)
    report.expect_none(
        "answers without exactly one posted hold",
        [row[0] for row in await lab.fetch(NOT_PAID_ONCE)],
    )
    report.expect(
        "credits that left the wallet for no answer",
        int(await lab.fetchval(UNPAID, PLENTY, lab.account.wallet_id)),
        0,
    )
    await check_books(lab)
