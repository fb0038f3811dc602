-- The two files that describe a project as a whole; see functions/descriptions.sql.

-- name: make_due
select dialectic.make_description_due(p.tenant_id, p.id), p.slug from dialectic_projects p
where p.id = $1

-- name: list_tickets
-- Those of the given files that are due.
select path, project_id, sha256 from dialectic_files
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
