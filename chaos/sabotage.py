"""Ways to break the product on purpose, to see that an experiment notices.

A sabotage edits SQL functions in the laboratory's own database, or patches the code of a process
that is started for it; the sources are never touched. An edit that no longer finds its place in
the source is an error: a sabotage that does nothing would prove nothing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to one SQL file of the package."""

    file: str
    old: str
    new: str


def _leave_alone() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Sabotage:
    """What is broken, in words, in SQL and in Python."""

    name: str
    meaning: str
    edits: Sequence[Edit] = ()
    statements: Sequence[str] = ()
    patch: Callable[[], None] = _leave_alone

    def build_statements(self) -> Iterator[str]:
        """Build what is run in the laboratory's database after its migration."""
        yield from self.statements
        for edit in self.edits:
            text = files("dialectic.sql").joinpath(edit.file).read_text(encoding="utf-8")
            yield _replace(text, edit.old, edit.new)


def _replace(text: str, old: str, new: str) -> str:
    if old not in text:
        raise LookupError(f"this sabotage has lost its place: {old!r}")
    return text.replace(old, new)


# -- patches of a process -------------------------------------------------------------------------


def put(owner: object, name: str, value: object) -> None:
    """Replace a part of the product that is there."""
    assert hasattr(owner, name), name
    setattr(owner, name, value)


def _remove_fence() -> None:
    from dialectic.store import jobs
    from dialectic.store.jobs import SQL

    for name in ("hold_lease", "complete"):
        SQL[name] = _replace(
            SQL[name],
            "attempt_count = $2 and status::text = 'processing'",
            "$2::integer is not null",
        )

    async def pay_nothing(*_: object) -> None:
        """Money has a fence of its own: a hold that was given up cannot be settled."""

    from dialectic.pipeline import save

    put(save, "settle", pay_nothing)

    async def find_none_taken(*_: object) -> list[object]:
        """Who learns that a job was taken away drops it, as a rule before it writes."""
        return []

    put(jobs, "list_taken", find_none_taken)


def _write_half() -> None:
    from dialectic.storage.disk import DiskStore

    write = DiskStore.write

    async def write_half(self: DiskStore, key: str, data: bytes) -> None:
        await write(self, key, data[: len(data) // 2])

    put(DiskStore, "write", write_half)


def _listen_once() -> None:
    from dialectic.worker import Worker

    async def listen(self: Worker) -> None:
        await self._listen_once()
        await self._stopping.wait()

    put(Worker, "_listen", listen)


def _commit_each_statement() -> None:
    import asyncpg

    execute = asyncpg.Connection.execute

    @contextlib.asynccontextmanager
    async def no_transaction(_connection: object) -> AsyncIterator[None]:
        yield

    async def execute_singly(self: Any, query: str, *arguments: Any, **options: Any) -> str:
        query = query.replace("set local ", "set ")  # which lasts no longer than a transaction
        if arguments or "$$" in query:
            return await execute(self, query, *arguments, **options)
        for statement in query.split(";\n"):
            if statement.strip():
                await execute(self, statement, **options)
        return ""

    put(asyncpg.Connection, "transaction", no_transaction)
    put(asyncpg.Connection, "execute", execute_singly)


def _lock_nothing() -> None:
    import os

    from dialectic.postgres import locks

    def take_without_asking(path: Path, _mode: int) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    put(locks, "try_lock", take_without_asking)


def _resume_nothing() -> None:
    from dialectic import sessions

    async def leave_as_it_is(*_: object, **__: object) -> None:
        return

    put(sessions, "resume", leave_as_it_is)
    put(sessions, "generate", leave_as_it_is)


def _tear_turns() -> None:
    """Commit what a turn wrote, and only then, in a second commit, that its job has ended."""
    from dialectic.pipeline import run, save
    from dialectic.store import jobs

    save_turn, complete = save.save_turn, jobs.complete
    ends: dict[Any, Any] = {}

    async def complete_later(_connection: object, job: Any, **end: Any) -> None:
        ends[job.key] = end

    async def save_in_two(engine: Any, job: Any, *rest: Any) -> None:
        await save_turn(engine, job, *rest)
        await engine.db.transact(job.tenant_id, lambda c: complete(c, job, **ends[job.key]))

    put(jobs, "complete", complete_later)
    put(run, "save_turn", save_in_two)


def _date_documents() -> None:
    import time

    from dialectic.domain.document import render_document
    from dialectic.pipeline import write

    def render_with_time(*given: Any) -> str:
        return f"{render_document(*given)}\n{time.time_ns()}\n"

    put(write, "render_document", render_with_time)


def _forget_ids() -> None:
    from dialectic.notify.stream import Follower

    async def begin_now(self: Follower, channel: Any) -> None:
        self.seq = channel.seq

    put(Follower, "_find_start", begin_now)


def _tell_again() -> None:
    from dialectic.notify.stream import Follower

    find_start = Follower._find_start

    async def begin_earlier(self: Follower, channel: Any) -> Any:
        state = await find_start(self, channel)
        self.seq = max(0, self.seq - 1)
        return state

    put(Follower, "_find_start", begin_earlier)


NONE = Sabotage("none", "nothing is broken")
ALL = {
    sabotage.name: sabotage
    for sabotage in (
        NONE,
        Sabotage(
            "unlocked_parent",
            "children that end do not lock their parent before they count",
            edits=(
                Edit(
                    "functions/wake_parent.sql",
                    "where j.tenant_id = p_tenant_id and j.id = p_parent_id\n  for no key update;",
                    "where j.tenant_id = p_tenant_id and j.id = p_parent_id;",
                ),
                Edit(
                    "functions/planners.sql",
                    "order by j.id\n  for no key update of j;",
                    "order by j.id;",
                ),
            ),
        ),
        Sabotage(
            "open_purse",
            "money is set aside whether it is there or not",
            edits=(Edit("functions/ledger.sql", "and (w.is_count_only or", "and (true or"),),
            statements=(
                "alter table dialectic.token_wallets drop constraint wallet_is_never_overdrawn",
            ),
        ),
        Sabotage(
            "no_budget",
            "nobody looks at a session's budget",
            edits=(Edit("functions/ledger.sql", "where s.budget_credits is null", "where true"),),
            statements=(
                "alter table dialectic.dialectic_session_spending"
                " drop constraint a_budget_is_never_exceeded",
            ),
        ),
        Sabotage(
            "paid_twice",
            "a call that is settled again is paid for again",
            edits=(
                Edit(
                    "functions/ledger.sql",
                    "if v_hold.state = 'posted' then\n    return v_hold;\n  end if;",
                    "",
                ),
            ),
        ),
        Sabotage(
            "prices_of_today",
            "a call is settled without the prices it was held for",
            edits=(
                Edit(
                    "functions/ledger.sql",
                    "p_input_tokens * p_hold.input_credits_per_token",
                    "p_input_tokens * 1",
                ),
            ),
        ),
        Sabotage(
            "kept_for_ever",
            "what is paid for stays set aside",
            edits=(
                Edit(
                    "functions/ledger.sql",
                    "set held_credits = w.held_credits - v_real,",
                    "set held_credits = w.held_credits,",
                ),
            ),
            statements=(
                "alter table dialectic.token_wallets drop constraint wallet_is_never_overdrawn",
            ),
        ),
        Sabotage(
            "taken_for_unsent",
            "a call whose answer is gone is taken for one that was never made",
            edits=(
                Edit(
                    "functions/sweep_holds.sql",
                    "give_up_hold(v_hold, 'lost')",
                    "give_up_hold(v_hold, 'voided')",
                ),
                Edit(
                    "functions/ledger.sql",
                    "dialectic.take_hold(p_key, 'lost'), 'lost')",
                    "dialectic.take_hold(p_key, 'voided'), 'voided')",
                ),
            ),
        ),
        Sabotage(
            "open_rows",
            "one table is without row-level security",
            statements=("alter table dialectic.dialectic_domains disable row level security",),
        ),
        Sabotage(
            "forgotten_names",
            "a request that was answered is done again",
            edits=(
                Edit(
                    "functions/idempotency.sql",
                    "elsif v_row.status is not null then\n    state := 'answered';",
                    "elsif v_row.status is not null then\n    state := 'taken';\n"
                    "    update dialectic.idempotency_keys k\n"
                    "    set status = null, headers = null, body = null, claim_id = p_claim_id\n"
                    "    where k.user_id = p_user_id and k.key = p_key;\n"
                    "    effect_id := gen_random_uuid();",
                ),
            ),
        ),
        Sabotage(
            "unlocked_prerequisite",
            "a new waiter does not lock what it waits for before it looks",
            edits=(
                Edit(
                    "functions/prerequisite.sql",
                    "j.id = p_job.prerequisite_job_id\n  for no key update;",
                    "j.id = p_job.prerequisite_job_id;",
                ),
            ),
        ),
        Sabotage(
            "sent_twice",
            "each message is put into the queue a second time",
            statements=(
                """
                create function chaos.send_again() returns trigger language plpgsql
                security definer set search_path = '' as $$
                begin
                  if new.dedupe_key is not null then
                    insert into queue.pgqueuer (priority, entrypoint, payload, status)
                    values (new.priority, new.entrypoint, new.payload, 'queued');
                  end if;
                  return null;
                end $$
                """,
                """
                create trigger send_again after insert on queue.pgqueuer
                for each row execute function chaos.send_again()
                """,
            ),
        ),
        Sabotage(
            "noted_twice",
            "every move of a job seems to happen twice",
            statements=(
                """
                create function chaos.note_again() returns trigger language plpgsql as $$
                begin
                  if new.at > '-infinity' then
                    insert into chaos.moves (at, job_id, from_status, to_status, attempt,
                      dispatch, step, is_claim, worker)
                    select '-infinity', new.job_id, new.from_status, new.to_status, new.attempt,
                      new.dispatch, new.step, new.is_claim, new.worker;
                  end if;
                  return null;
                end $$
                """,
                """
                create trigger note_again after insert on chaos.moves
                for each row execute function chaos.note_again()
                """,
            ),
        ),
        Sabotage(
            "no_sweep",
            "nobody looks for what is stuck",
            edits=(
                Edit(
                    "functions/sweep_jobs.sql",
                    "if not pg_try_advisory_xact_lock(hashtext('dialectic.sweep_jobs')) then",
                    "if true then",
                ),
            ),
        ),
        Sabotage(
            "no_fence",
            "the end of an attempt does not ask whether the attempt still counts",
            patch=_remove_fence,
        ),
        Sabotage(
            "forgotten_files",
            "files of a worker that died are never carried to storage",
            edits=(
                Edit("functions/pending_files.sql", "where w.written_at is null", "where false"),
            ),
        ),
        Sabotage("half_files", "storage keeps half of each file", patch=_write_half),
        Sabotage(
            "deaf", "a worker that lost its connection never listens again", patch=_listen_once
        ),
        Sabotage(
            "torn_migrations", "migrations run outside transactions", patch=_commit_each_statement
        ),
        Sabotage(
            "resume_nothing",
            "`dialectic resume` does not set going what stands still",
            patch=_resume_nothing,
        ),
        Sabotage(
            "torn_turns",
            "a turn is saved in one commit, the end of its job in another",
            patch=_tear_turns,
        ),
        Sabotage("dated_documents", "documents tell when they were written", patch=_date_documents),
        Sabotage(
            "numbered_when_written",
            "events have the numbers of their writing, not of their commit",
            edits=(
                Edit("functions/notifications.sql", "set seq = v_last + u.nth", "set seq = u.id"),
            ),
        ),
        Sabotage(
            "forgotten_ids",
            "a stream begins with what comes next, whatever was seen last",
            patch=_forget_ids,
        ),
        Sabotage(
            "told_again",
            "a stream begins with the last event that was seen",
            patch=_tell_again,
        ),
        Sabotage(
            "no_locks",
            "commands start and stop the embedded server as if each were the only one",
            patch=_lock_nothing,
        ),
    )
}


def load(name: str) -> Sabotage:
    return ALL[name]


def build_command(sabotage: Sabotage, *arguments: str) -> list[str]:
    """Build the command that runs the product, broken as said."""
    if sabotage is NONE:
        return [sys.executable, "-m", "dialectic", *arguments]
    return [sys.executable, "-m", "chaos.sabotage", sabotage.name, *arguments]


def main() -> None:
    """Break the product in this process and run its command line."""
    from dialectic.cli.main import main as run_product

    load(sys.argv[1]).patch()
    del sys.argv[1]
    run_product()


if __name__ == "__main__":
    main()
