"""The schema as text: one line for each thing the server's catalogue knows of it, sorted.

`catalogue.txt` holds the schema that is wanted, and a test compares it with the one that the
migrations make. After a wanted change, write it again and read what changed in it:

    .venv/bin/python -m tests.database.catalogue

The order of columns is left out, since no statement depends on it, and so are the bodies of
functions, which have files of their own. The queue's schema belongs to the queue.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import asyncpg

from dialectic.engine import DATABASE, SUPERUSER
from tests.servers import join_copy, make_home

RECORDED = Path(__file__).with_name("catalogue.txt")

# Who may do what, as `role: RIGHT, RIGHT; role: RIGHT`. Which rights the owner has differs between
# servers, and it has them all.
RIGHTS = """
(select string_agg(held.line, '; ' order by held.line) from (
  select concat(case when x.grantee = 0 then 'public' else x.grantee::regrole::text end, ': ',
    string_agg(x.privilege_type, ', ' order by x.privilege_type)) as line
  from aclexplode({acl}) x where x.grantee <> 'dialectic_owner'::regrole group by x.grantee) held)
"""


def _rights(acl: str) -> str:
    return RIGHTS.format(acl=acl)


DESCRIBE = f"""
with ours as (
  select c.* from pg_class c where c.relnamespace = 'dialectic'::regnamespace
)
select concat_ws(' ', 'schema', n.nspname, 'owner', n.nspowner::regrole, {_rights("n.nspacl")})
  as line
from pg_namespace n where n.nspname in ('dialectic', 'queue')
union all
select concat_ws(' ', 'role', r.rolname, 'login', r.rolcanlogin, 'inherit', r.rolinherit,
  'superuser', r.rolsuper, 'bypassrls', r.rolbypassrls)
from pg_roles r where starts_with(r.rolname, 'dialectic_')
union all
select concat_ws(' ', c.relname, 'relation', c.relkind, c.relpersistence, 'owner',
  c.relowner::regrole, 'row security', c.relrowsecurity, c.relforcerowsecurity,
  array_to_string(c.reloptions, ', '))
from ours c where c.relkind not in ('i', 't')
union all
select concat_ws(' ', c.relname, 'rights', {_rights("c.relacl")})
from ours c where c.relkind not in ('i', 't')
union all
select concat_ws(' ', c.relname, 'column', a.attname, format_type(a.atttypid, a.atttypmod),
  case when a.attnotnull then 'not null' end,
  case when a.attgenerated = 's' then 'generated' when d.adbin is not null then 'default' end,
  pg_get_expr(d.adbin, d.adrelid),
  case a.attidentity when 'a' then 'identity always' when 'd' then 'identity by default' end,
  'storage', a.attstorage, nullif(a.attcompression::text, ''),
  case when a.attcollation <> t.typcollation then 'collation ' || a.attcollation::regcollation end,
  'statistics ' || nullif(a.attstattarget, -1), array_to_string(a.attoptions, ', '),
  {_rights("a.attacl")})
from ours c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type t on t.oid = a.atttypid
left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
where c.relkind not in ('i', 'S', 't')
union all
select concat_ws(' ', c.relname, 'constraint', k.conname, pg_get_constraintdef(k.oid),
  case when not k.convalidated then 'not validated' end)
from ours c join pg_constraint k on k.conrelid = c.oid
where k.contype not in ('n', 't')  -- what must not be null stands with its column
union all
select concat_ws(' ', c.relname, 'index', pg_get_indexdef(i.indexrelid),
  case when not i.indisvalid then 'invalid' end)
from ours c join pg_index i on i.indrelid = c.oid
union all
select concat_ws(' ', c.relname, 'trigger', t.tgenabled, pg_get_triggerdef(t.oid))
from ours c join pg_trigger t on t.tgrelid = c.oid where not t.tgisinternal
union all
select concat_ws(' ', p.tablename, 'policy', p.policyname, p.permissive, p.cmd,
  array_to_string(p.roles, ', '), p.qual, 'check ' || p.with_check)
from pg_policies p where p.schemaname = 'dialectic'
union all
select concat_ws(' ', s.sequencename, 'sequence', s.data_type, s.start_value, s.min_value,
  s.max_value, s.increment_by, s.cycle, s.cache_size)
from pg_sequences s where s.schemaname = 'dialectic'
union all
select concat_ws(' ', c.relname, 'statistics', pg_get_statisticsobjdef(e.oid))
from ours c join pg_statistic_ext e on e.stxrelid = c.oid
union all
select concat_ws(' ', 'type', t.typname, t.typtype, 'owner', t.typowner::regrole,
  nullif(format_type(t.typbasetype, t.typtypmod), '-'), case when t.typnotnull then 'not null' end,
  t.typdefault, {_rights("t.typacl")},
  (select string_agg(e.enumlabel, ', ' order by e.enumsortorder) from pg_enum e
    where e.enumtypid = t.oid),
  (select string_agg(concat_ws(' ', k.conname, pg_get_constraintdef(k.oid)), ', '
    order by k.conname) from pg_constraint k where k.contypid = t.oid))
from pg_type t
where t.typnamespace = 'dialectic'::regnamespace and t.typtype in ('d', 'e', 'r', 'm')
union all
select concat_ws(' ', 'function', p.proname, pg_get_function_arguments(p.oid), 'returns',
  pg_get_function_result(p.oid), p.prokind, l.lanname, p.provolatile, p.proparallel,
  case when p.prosecdef then 'definer' end, case when p.proisstrict then 'strict' end,
  array_to_string(p.proconfig, ', '), 'owner', p.proowner::regrole, {_rights("p.proacl")})
from pg_proc p join pg_language l on l.oid = p.prolang
where p.pronamespace = 'dialectic'::regnamespace
union all
select concat_ws(' ', 'comment', o.identity, d.description)
from pg_description d cross join lateral pg_identify_object(d.classoid, d.objoid, d.objsubid) o
where o.schema = 'dialectic'
union all
select concat_ws(' ', 'default rights', d.defaclrole::regrole, d.defaclobjtype,
  {_rights("d.defaclacl")})
from pg_default_acl d
union all
select concat_ws(' ', 'dialectic_job_moves row', m.from_status, m.to_status, m.meaning)
from dialectic.dialectic_job_moves m
"""


async def describe_catalogue(url: str) -> str:
    """Describe the schema of a database, line by line."""
    # Without a search path, every name is written with its schema.
    connection = await asyncpg.connect(url, server_settings={"search_path": ""})
    try:
        rows = await connection.fetch(DESCRIBE)
    finally:
        await connection.close()
    return "".join(f"{line}\n" for line in sorted(" ".join(row["line"].split()) for row in rows))


def main() -> None:
    """Write down the schema that the migrations make."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_home(Path(folder))
        with join_copy(made, Path(folder) / "home") as server:
            url = server.url(user=SUPERUSER, database=DATABASE)
            text = asyncio.run(describe_catalogue(url))
    RECORDED.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
