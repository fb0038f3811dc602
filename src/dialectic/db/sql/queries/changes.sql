-- Statements of db/tables/changes.py: rows that changed since a snapshot.

-- name: list_changed_tenants
select dialectic.list_changed_tenants($1, $2) as tenant_id

-- name: list_changes
-- What changed since a snapshot ($1), at most $2 rows: of documents the first version, of a rating
-- also the document that it is about.
select kind, id, session_id, iteration, user_id, changed_in::text::bigint as changed_in from (
  select 'job' as kind, j.id, j.session_id, j.iteration_number as iteration, null::uuid as user_id,
    j.changed_in
  from dialectic_generation_jobs j where is_newer(j.changed_in, $1::text::pg_snapshot)
  union all
  select 'session', s.id, s.id, s.iteration_count, null, s.changed_in
  from dialectic_sessions s where is_newer(s.changed_in, $1::text::pg_snapshot)
  union all
  select 'document', coalesce(c.original_model_contribution_id, c.id), c.session_id,
    c.iteration_number, null, c.changed_in
  from dialectic_contributions c where is_newer(c.changed_in, $1::text::pg_snapshot)
  union all
  select 'feedback', f.id, f.session_id, f.iteration_number, null, f.changed_in
  from dialectic_feedback f where is_newer(f.changed_in, $1::text::pg_snapshot)
  union all
  select 'document', f.target_contribution_id, f.session_id, f.iteration_number, null, f.changed_in
  from dialectic_feedback f
  where is_newer(f.changed_in, $1::text::pg_snapshot) and f.rating is not null
  union all
  select 'project', p.id, null, null, null, p.changed_in
  from dialectic_projects p where is_newer(p.changed_in, $1::text::pg_snapshot)
  union all
  select 'chat', c.id, null, null, null, c.changed_in
  from chats c where is_newer(c.changed_in, $1::text::pg_snapshot)
  union all
  select 'wallet', w.id, null, null, w.user_id, w.changed_in
  from token_wallets w where is_newer(w.changed_in, $1::text::pg_snapshot)
  union all
  select 'gone_' || r.kind, r.id, r.session_id, null, null, r.changed_in
  from dialectic_removals r where is_newer(r.changed_in, $1::text::pg_snapshot)
) changed
limit $2

-- name: list_changed_projects
select p.id, p.project_name, p.slug, p.status, p.created_at, d.name as domain
from dialectic_projects p
join dialectic_domains d on d.tenant_id = p.tenant_id and d.id = p.domain_id
where p.id = any ($1)
order by p.created_at, p.id

-- name: list_changed_chats
select c.id, c.title, c.created_at,
  (select count(*) from chat_messages m
    where m.tenant_id = c.tenant_id and m.chat_id = c.id and m.is_active_in_thread)::integer as messages
from chats c
where c.id = any ($1)
order by c.created_at, c.id
