"""What work costs the server: transactions, rows, log and CPU time. Looks on, changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

from bench.server import Server
from dialectic.postgres import embedded

COUNTS = """
    select d.xact_commit::float8, (d.tup_inserted + d.tup_updated + d.tup_deleted)::float8,
      (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8,
      (select coalesce(sum(fsyncs), 0) from pg_stat_io where object = 'wal')::float8
    from pg_stat_database d where d.datname = $1
"""


@dataclass(frozen=True)
class Costs:
    """Totals since the server started, or the difference of two of them."""

    commits: float
    rows_written: float
    wal_bytes: float
    wal_flushes: float

    def __sub__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(Costs)))


def read_costs(server: Server, database: str) -> Costs:
    """Read the totals. Connections report theirs when they close, so close them before."""
    commits, rows_written, wal_bytes, wal_flushes = server.fetch(COUNTS, database)[0]
    return Costs(commits, rows_written, wal_bytes, wal_flushes)


def read_cpu_s(server: Server) -> float:
    """Add up the CPU time of the server's processes, dead ones too; zero where it is unknown."""
    pid = embedded.describe_server(server.home).pid
    if pid is None or not Path("/proc/self/stat").exists():
        return 0.0
    while True:
        before = _read_stat(pid)[11:15]
        ticks = sum(before) + _sum_children(pid)
        # Otherwise one of them has ended meanwhile: was it counted once, twice or not at all?
        if _read_stat(pid)[13:15] == before[2:]:
            return ticks / os.sysconf("SC_CLK_TCK")


def _sum_children(pid: int) -> int:
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = _read_stat(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
            ticks += sum(stat[11:13]) if stat[1] == pid else 0
    return ticks


def _read_stat(pid: int) -> list[int]:
    """Read a process's numbers; the first is a placeholder for its state, which is a letter."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [0, *map(int, words[1:])]
