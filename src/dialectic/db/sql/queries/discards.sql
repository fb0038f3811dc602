-- Files of deleted projects that still stand in storage; see functions/discarded_files.sql.

-- name: discard_files
-- Those whose bytes wait may be on their way into storage at this moment, and come after all.
insert into dialectic_discarded_files (tenant_id, path, settled_at, due_at)
select f.tenant_id, f.path,
  dialectic.now() + case when f.written_at is null then $4::interval else interval '0' end,
  dialectic.now() + $3::interval
from dialectic_files f
where f.project_id = $1
union all
select p.tenant_id, other.path, dialectic.now(), dialectic.now() + $3
from dialectic_projects p, unnest($2::text[]) as other (path)
where p.id = $1
returning path

-- name: take_files
select * from dialectic.take_discarded_files($1, $2)

-- name: forget_files
-- One that someone may still write is deleted once more when its turn comes.
delete from dialectic_discarded_files
where path = any ($1) and settled_at <= dialectic.now()
returning path
