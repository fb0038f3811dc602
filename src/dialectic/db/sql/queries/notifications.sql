-- Events and notifications: follow, list, read. `announce` and other functions write them.

-- name: read_events
select * from dialectic.read_events($1, $2, $3)

-- name: list_news
select dialectic.list_news($1, $2) as tenant_id

-- name: prune
select dialectic.prune_notifications($1, $2, $3) as count

-- name: list_session_states
-- The states of sessions, newest first; $1 selects one.
select s.id, s.project_id, p.project_name, s.phase, s.current_stage_slug, s.iteration_count,
  r.status as stage_status, r.finished_units, r.planned_units
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
left join dialectic_stage_runs r
  on r.tenant_id = s.tenant_id and r.session_id = s.id
  and r.iteration_number = s.iteration_count and r.stage_slug = s.current_stage_slug
where $1::uuid is null or s.id = $1
order by s.created_at desc, s.id
limit $2

-- name: list_notifications
-- Messages to a user, newest first; $2 is the last id of the previous page.
select id, session_id, type, title, message, link_path, remedy, data, read_at, resolved_at, created_at
from notifications
where not is_internal_event and (user_id = $1 or user_id is null)
  and ($2::bigint is null or id < $2) and (read_at is null or not $3)
order by id desc
limit $4

-- name: mark_read
update notifications
set read_at = coalesce(read_at, dialectic.now())
where id = $1 and not is_internal_event and (user_id = $2 or user_id is null)
returning id

-- name: mark_all_read
-- Up to an id ($2), of one session ($3), or both; nulls mean all.
with marked as (
  update notifications
  set read_at = dialectic.now()
  where read_at is null and not is_internal_event and (user_id = $1 or user_id is null)
    and ($2::bigint is null or id <= $2) and ($3::uuid is null or session_id = $3)
  returning id
)
select count(*)::integer from marked

-- name: count_unread
select count(*)::integer from notifications
where read_at is null and not is_internal_event and (user_id = $1 or user_id is null)

-- name: notify
select announce_to_user($1, $2, $3, $4, $5, $6, $7, $8)

-- name: resolve
select dialectic.resolve($1)
