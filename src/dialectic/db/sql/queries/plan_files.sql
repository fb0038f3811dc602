-- Statements of db/tables/plan_files.py: the files of agreed plans, which people work on.

-- name: list_plan_items
-- What we wrote into the work folders of a project, also what is superseded.
select r.storage_path as path, r.resource_type as kind, r.session_id, r.iteration_number, r.notes,
  encode(sha256(convert_to(r.content, 'UTF8')), 'hex') as sha256
from dialectic_project_resources r
where r.project_id = $1
  and r.resource_type in ('work_item', 'superseded_work_item', 'work_folder_readme', 'plan_page')
order by r.storage_path

-- name: touch_project
-- Followers of the project are told: a trigger names this transaction in the row.
update dialectic_projects set changed_in = pg_current_xact_id() where id = $1

-- name: list_plan_pages
-- The pages that we wrote, also those that a person has changed, moved or deleted since.
select path from dialectic_files
where starts_with(path, $1) and split_part(path, '/', 2) ~ '^PLAN(-v[0-9]+)?[.]md$'
order by path

-- name: find_plan_page
select r.storage_path as path, coalesce(r.notes, '{}') as notes, p.user_id
from dialectic_projects p
left join dialectic_project_resources r
  on r.tenant_id = p.tenant_id and r.project_id = p.id and r.resource_type = 'plan_page'
where p.id = $1
order by r.storage_path desc
limit 1

-- name: supersede_plan_items
-- Withdraw the files of the session's plan that its newest version does not have.
with gone as (
  update dialectic_project_resources r
  set resource_type = 'superseded_work_item'
  where r.project_id = $1 and r.session_id = $2 and r.resource_type = 'work_item'
    and r.storage_path <> all ($3::text[])
  returning r.tenant_id, r.storage_path, encode(sha256(convert_to(r.content, 'UTF8')), 'hex') as sha256
)
update dialectic_files f
set content = '', written_at = null, tried_at = null, is_withdrawn = true,
    -- Empty if it was never written: then no person can have removed it.
    earlier_sha256 = case when f.written_at is null then f.earlier_sha256
      else f.earlier_sha256 || g.sha256 end
from gone g
where f.tenant_id = g.tenant_id and f.path = g.storage_path

-- name: find_waiting_plan_file
-- `sha256` is the hash of what we want there, or of what we wrote there if it is withdrawn. The row
-- of an imported file may hold a person's bytes.
select f.path, f.project_id, f.content, f.is_withdrawn, f.earlier_sha256 as earlier,
  r.session_id, coalesce(r.notes, '{}') as notes,
  case when f.is_withdrawn then encode(sha256(convert_to(r.content, 'UTF8')), 'hex')
    else f.sha256 end as sha256
from dialectic_files f
left join dialectic_project_resources r
  on r.tenant_id = f.tenant_id and r.storage_path = f.path
where f.path = $1 and f.content is not null

-- name: list_waiting_plan_files
select path, content, is_withdrawn from dialectic_files
where starts_with(path, $1) and written_at is null
  and split_part(path, '/', 2) ~ '^(Pending|Current|Complete|PLAN(-v[0-9]+)?[.]md)$'
order by is_withdrawn desc, path

-- name: mark_plan_file_written
update dialectic_files
set content = null, written_at = dialectic.now(), tried_at = null, earlier_sha256 = '{}'
where path = $1 and sha256 = $2 and content is not null and not is_withdrawn
returning path

-- name: remember_plan_file
-- It was replaced while it was being written: storage has these bytes, which are ours.
update dialectic_files set earlier_sha256 = earlier_sha256 || $2::text
where path = $1 and content is not null

-- name: leave_plan_file
-- What a person has put or changed there stays as it is, and is theirs.
update dialectic_files
set content = null, written_at = dialectic.now(), tried_at = null, is_withdrawn = false
where path = $1 and content is not null

-- name: forget_plan_resource
delete from dialectic_project_resources r
using dialectic_files f
where r.storage_path = $1 and r.resource_type = 'superseded_work_item'
  and f.tenant_id = r.tenant_id and f.path = r.storage_path and f.is_withdrawn

-- name: forget_plan_file
delete from dialectic_files where path = $1 and content is not null and is_withdrawn

-- name: keep_removal_in_mind
-- A person removed it before we did. Its place stays in mind, so that it does not come back.
update dialectic_files
set content = null, written_at = dialectic.now(), tried_at = null, is_withdrawn = false
where path = $1 and content is not null and is_withdrawn

-- name: list_taken_plan_paths
select path from dialectic_files where starts_with(path, $1)

-- name: write_plan_successor
-- The old place stays in mind with what we wrote there: whatever it holds now is a person's.
with moved as (
  update dialectic_files f
  set content = null, written_at = dialectic.now(), tried_at = null,
      sha256 = coalesce(f.earlier_sha256[cardinality(f.earlier_sha256)], repeat('0', 64))
  from dialectic_files old
  where f.path = $1 and f.sha256 = $4 and f.content is not null and not f.is_withdrawn
    and old.tenant_id = f.tenant_id and old.path = f.path
  returning f.tenant_id, f.project_id, f.mime_type, f.size_bytes, $4::text as sha256, old.content
), successor as (
  insert into dialectic_files
    (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
  select tenant_id, $2, project_id, mime_type, size_bytes, sha256, content from moved
  returning tenant_id
)
update dialectic_project_resources r
set id = $3, storage_path = $2, notes = $5::text[]
from successor b
where r.tenant_id = b.tenant_id and r.storage_path = $1
returning r.id
