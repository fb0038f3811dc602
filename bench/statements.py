"""Which statements the server spent its time on. Needs a server that counts them: `PROFILE`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.server import PROFILE, Server

ROWS_MAX = 60
CHARS_MAX = 110
TOTALS = """
    select calls::float8, total_exec_time, total_plan_time, wal_bytes::float8, toplevel,
      regexp_replace(query, '\\s+', ' ', 'g') as query
    from pg_stat_statements
    where dbid = (select oid from pg_database where datname = current_database())
      and query not like '%pg_stat_statements%'
    order by total_exec_time desc
"""


@contextlib.contextmanager
def profile_statements(server: Server, database: str, name: str) -> Iterator[None]:
    """Write what each statement took meanwhile to a file of the profile's folder, if it has one."""
    if not PROFILE:
        yield
        return
    server.fetch("create extension if not exists pg_stat_statements", database=database)
    server.fetch("select pg_stat_statements_reset()", database=database)
    yield
    rows = server.fetch(TOTALS, database=database)
    lines = [f"{'calls':>7} {'ms':>9} {'plan ms':>8} {'WAL bytes':>11} where     statement"]
    for calls, total_ms, plan_ms, wal_bytes, is_top, query in rows[:ROWS_MAX]:
        place = "sent    " if is_top else "function"
        figures = f"{calls:7.0f} {total_ms:9.1f} {plan_ms:8.1f} {wal_bytes:11.0f}"
        lines.append(f"{figures} {place}  {query[:CHARS_MAX]}")
    calls, total_ms, plan_ms, wal_bytes = (sum(r[i] for r in rows if r[4]) for i in range(4))
    plan_ms = sum(row[2] for row in rows)
    figures = f"{calls:7.0f} {total_ms:9.1f} {plan_ms:8.1f} {wal_bytes:11.0f}"
    lines.append(f"{figures} all that were sent, and all planning")
    Path(PROFILE).mkdir(parents=True, exist_ok=True)
    (Path(PROFILE) / f"{name}.statements.txt").write_text("\n".join(lines) + "\n")
