-- Events and notifications: follow and list. `announce` and other functions write them.

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
select id, session_id, type, title, message, link_path, data, read_at, created_at
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
