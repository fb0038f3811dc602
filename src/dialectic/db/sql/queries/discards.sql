-- Files of deleted projects that are still in storage; see functions/discarded_files.sql.

-- name: discard_files
-- A worker may be writing those files whose bytes are in the database, even after this commit.
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
-- A file that a worker may still write is deleted again when it is next due.
delete from dialectic_discarded_files
where path = any ($1) and settled_at <= dialectic.now()
returning path
