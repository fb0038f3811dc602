"""Ways to break the product on purpose, to see that an experiment notices.

A sabotage edits SQL functions in the laboratory's own database, or patches the code of a process
that is started for it; the sources are never touched. An edit that no longer finds its place in
the source is an error: a sabotage that does nothing would prove nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from chaos import patches
from chaos.patches import replace_part


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
            text = files("dialectic.db.sql").joinpath(edit.file).read_text(encoding="utf-8")
            yield replace_part(text, edit.old, edit.new)


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
            edits=(
                Edit(
                    "functions/session_lock.sql",
                    "j.attempt_count = p_attempt and j.status::text = 'processing'",
                    "true",
                ),
            ),
            patch=patches.remove_fence,
        ),
        Sabotage(
            "forgotten_files",
            "files of a worker that died are never carried to storage",
            edits=(
                Edit("functions/pending_files.sql", "where w.written_at is null", "where false"),
            ),
        ),
        Sabotage("half_files", "storage keeps half of each file", patch=patches.write_half),
        Sabotage(
            "deaf",
            "a worker that lost its connection never listens again",
            patch=patches.listen_once,
        ),
        Sabotage(
            "impatient",
            "a heartbeat that was late because the process was busy fails in an unknown way",
            patch=patches.fail_when_late,
        ),
        Sabotage(
            "whole_bodies",
            "a piece of a response is unpacked and read as a whole, however large it is",
            patch=patches.unpack_whole,
        ),
        Sabotage(
            "torn_migrations",
            "migrations run outside transactions",
            patch=patches.commit_each_statement,
        ),
        Sabotage(
            "resume_nothing",
            "`dialectic resume` does not set going what stands still",
            patch=patches.resume_nothing,
        ),
        Sabotage(
            "torn_turns",
            "a turn is saved in one commit, the end of its job in another",
            patch=patches.tear_turns,
        ),
        Sabotage(
            "dated_documents", "documents tell when they were written", patch=patches.date_documents
        ),
        Sabotage(
            "numbered_when_written",
            "events have the numbers of their writing, not of their commit",
            edits=(
                Edit("functions/notifications.sql", "v_last := v_last + 1;", "v_last := v_new.id;"),
            ),
        ),
        Sabotage(
            "forgotten_ids",
            "a stream begins with what comes next, whatever was seen last",
            patch=patches.forget_ids,
        ),
        Sabotage(
            "told_again",
            "a stream begins with the last event that was seen",
            patch=patches.tell_again,
        ),
        Sabotage(
            "no_locks",
            "commands start and stop the embedded server as if each were the only one",
            patch=patches.lock_nothing,
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
