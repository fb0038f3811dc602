-- Statements of db/tables/files.py: files whose bytes are still in the database, the two files that
-- describe a project, and the files of deleted projects that are still in storage.

-- name: insert_files
insert into dialectic_files (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
select $1, file.path, $2, file.mime_type, length(file.content), file.sha256, file.content
from unnest($3::text[], $4::text[], $5::text[], $6::bytea[])
  as file (path, mime_type, sha256, content)

-- name: put_files
-- Derived files: other bytes replace them, equal bytes change nothing.
insert into dialectic_files as f
  (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
select $1, file.path, $2, file.mime_type, length(file.content), file.sha256, file.content
from unnest($3::text[], $4::text[], $5::text[], $6::bytea[])
  as file (path, mime_type, sha256, content)
on conflict (tenant_id, path) do update
set size_bytes = excluded.size_bytes, sha256 = excluded.sha256, content = excluded.content,
    written_at = null
where f.sha256 <> excluded.sha256
returning path

-- name: read_waiting_files
select path, content from dialectic_files where path = any ($1) and content is not null

-- name: list_waiting_files_of_project
select path from dialectic_files where project_id = $1 and written_at is null order by path

-- name: take_waiting_files
select * from dialectic.take_waiting_files($1, $2, $3)

-- name: mark_files_written
select dialectic.mark_files_written($1, $2, $3) as path

-- name: make_due
select dialectic.make_description_due(p.tenant_id, p.id), p.slug from dialectic_projects p
where p.id = $1

-- name: list_tickets
-- Those of the given files that are due.
select path, project_id, sha256 as id from dialectic_files
where path = any ($1::text[]) and written_at is null

-- name: mark_made
-- A file that became due again meanwhile has another ticket and stays due.
update dialectic_files f
set content = null, written_at = dialectic.now(), tried_at = null, sha256 = made.sha256,
    size_bytes = made.size_bytes
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
  as made (path, ticket, sha256, size_bytes)
where f.path = made.path and f.sha256 = made.ticket and f.written_at is null
returning f.path

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
where p.id = $1 and not exists (
  select from dialectic_files f where f.tenant_id = p.tenant_id and f.path = other.path)
returning path

-- name: discard_file
-- One file of a project that stays.
with gone as (
  delete from dialectic_files where project_id = $1 and path = $2
  returning tenant_id, path, written_at
)
insert into dialectic_discarded_files (tenant_id, path, settled_at, due_at)
select g.tenant_id, g.path,
  dialectic.now() + case when g.written_at is null then $4::interval else interval '0' end,
  dialectic.now() + $3::interval
from gone g

-- name: take_files
select * from dialectic.take_discarded_files($1, $2)

-- name: forget_files
-- A file that a worker may still write is deleted again when it is next due.
delete from dialectic_discarded_files
where path = any ($1) and settled_at <= dialectic.now()
returning path
