-- Statements of db/tables/lists.py: keyset pagination. A page begins after the row with the key
-- ($1, $2; null for the first page) and holds $3 rows, so new rows shift nothing.

-- name: list_projects
select p.id, p.project_name, p.slug, p.status, p.created_at, d.name as domain
from dialectic_projects p
join dialectic_domains d on d.tenant_id = p.tenant_id and d.id = p.domain_id
where ($1::timestamptz is null or (p.created_at, p.id) < ($1, $2::uuid))
  and ($4::boolean is null or (p.status = 'archived') = $4)
order by p.created_at desc, p.id desc
limit $3

-- name: list_project_lines
-- Filtered by archived ($4), text of name and prompt ($5), the phases of the last session ($6) and
-- its user ($7); in the order $8: by name, which pages after the name $9, or by time.
with found as (
  select p.id, lower(p.project_name) as name, l.id as last_session_id, l.sessions,
    case when $8 = 'created' then p.created_at
      else greatest(p.created_at, l.created_at, m.moved_at) end as at
  from dialectic_projects p
  left join lateral (
    select s.id, s.phase, s.created_at, count(*) over () as sessions
    from dialectic_sessions s
    where s.tenant_id = p.tenant_id and s.project_id = p.id
    order by s.created_at desc, s.id desc
    limit 1
  ) l on true
  left join lateral (
    select max(greatest(r.started_at, r.completed_at)) as moved_at
    from dialectic_sessions s
    join dialectic_stage_runs r on r.tenant_id = s.tenant_id and r.session_id = s.id
    where s.tenant_id = p.tenant_id and s.project_id = p.id
  ) m on true
  where ($4::boolean is null or (p.status = 'archived') = $4)
    and ($5::text is null or strpos(lower(p.project_name), lower($5)) > 0
      or strpos(lower(p.initial_user_prompt), lower($5)) > 0)
    and ($6::text[] is null or l.phase::text = any ($6))
    and ($7::uuid is null or p.user_id = $7)
), picked as (
  select *, row_number() over (order by case when $8 = 'name' then name end,
    case when $8 <> 'name' then at end desc, case when $8 = 'name' then id end, id desc) as nth
  from found
  where case when $8 = 'name' then $9::text is null or (name, id) > ($9, $2::uuid)
    else $1::timestamptz is null or (at, id) < ($1, $2::uuid) end
  order by nth
  limit $3
)
select p.id, p.project_name, p.slug, p.status, p.created_at, d.name as domain, k.name as sort_name,
  k.at as sort_at, greatest(k.at, p.created_at) as updated_at,
  left(p.initial_user_prompt, 2000) as prompt, coalesce(k.sessions, 0)::integer as sessions,
  k.last_session_id, coalesce(g.spent_credits, 0) as spent_credits,
  coalesce(g.play_spent_credits, 0) as play_spent_credits
from picked k
join dialectic_projects p on p.id = k.id
join dialectic_domains d on d.tenant_id = p.tenant_id and d.id = p.domain_id
left join lateral (
  select sum(g.spent_credits)::bigint as spent_credits,
    sum(g.play_spent_credits)::bigint as play_spent_credits
  from dialectic_sessions s
  join dialectic_session_spending g on g.tenant_id = s.tenant_id and g.session_id = s.id
  where s.tenant_id = p.tenant_id and s.project_id = p.id
) g on true
order by k.nth

-- name: list_sessions
select s.id, s.project_id, p.project_name, s.phase, s.current_stage_slug, s.iteration_count,
  s.until_stage_slug, s.created_at, cardinality(s.selected_model_ids) - cardinality(s.dropped_seats) as model_count
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
where ($1::timestamptz is null or (s.created_at, s.id) < ($1, $2::uuid))
  and ($4::uuid is null or s.project_id = $4)
  and ($5::boolean is null or (p.status = 'archived') = $5)
  and ($6::text[] is null or s.phase::text = any ($6))
  and ($7::uuid[] is null or s.id = any ($7))
order by s.created_at desc, s.id desc
limit $3

-- name: list_session_details
-- What a line shows of each session beyond its summary. Calls are counted where some may be under
-- way.
select s.id, s.lead_model_index, s.dropped_seats,
  array(
    select m.api_identifier
    from unnest(s.selected_model_ids) with ordinality as chosen (id, nth)
    join ai_providers m on m.tenant_id = s.tenant_id and m.id = chosen.id
    order by chosen.nth
  ) as model_names,
  coalesce(g.spent_credits, 0) as spent_credits,
  coalesce(g.play_spent_credits, 0) as play_spent_credits, g.budget_credits,
  greatest(s.created_at, t.moved_at, (select max(j.completed_at) from dialectic_generation_jobs j
    where j.tenant_id = s.tenant_id and j.session_id = s.id)) as updated_at,
  t.stages
from dialectic_sessions s
left join dialectic_session_spending g on g.tenant_id = s.tenant_id and g.session_id = s.id
left join lateral (
  select max(greatest(r.started_at, r.completed_at)) as moved_at,
    jsonb_agg(jsonb_build_object(
      'slug', t.slug, 'title', t.display_name, 'status', coalesce(r.status, 'not_begun'),
      'planned', coalesce(r.planned_units, 0), 'finished', coalesce(r.finished_units, 0),
      'running', coalesce(w.running, 0)) order by t.position) as stages
  from dialectic_stages t
  left join dialectic_stage_runs r on r.tenant_id = t.tenant_id and r.session_id = s.id
    and r.iteration_number = s.iteration_count and r.stage_slug = t.slug
  left join (
    select j.stage_slug, count(*) as running
    from dialectic_generation_jobs j
    where j.tenant_id = s.tenant_id and j.session_id = s.id and s.phase in ('generating', 'paused')
      and j.status = 'processing' and j.job_type <> 'plan'
    group by j.stage_slug
  ) w on w.stage_slug = t.slug
  where t.tenant_id = s.tenant_id and t.process_template_id = s.process_template_id
) t on true
where s.id = any ($1)

-- name: list_waiting
-- What may wait for a person: stages that are complete, calls that are paused for a reason of their
-- own, calls that failed by themselves. Of all projects that are not archived, or of sessions ($1).
select s.id as session_id, s.project_id, p.project_name, s.phase, s.current_stage_slug,
  s.until_stage_slug, r.completed_at as stage_ended_at, coalesce(j.stage_slug, s.current_stage_slug) as stage,
  t.display_name as stage_title, j.id as job_id, j.status::text, j.status_reason,
  j.error_details -> -1 as error
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
left join dialectic_stage_runs r on r.tenant_id = s.tenant_id and r.session_id = s.id
  and r.iteration_number = s.iteration_count and r.stage_slug = s.current_stage_slug
left join dialectic_generation_jobs j on j.tenant_id = s.tenant_id and j.session_id = s.id
  and (j.status = 'paused' and j.status_reason = j.error_details -> -1 ->> 'code'
    or s.phase = 'failed' and j.status in ('failed', 'retry_loop_failed')
      and j.error_details -> -1 ->> 'code' not in ('prerequisite_failed', 'child_failed'))
join dialectic_stages t on t.tenant_id = s.tenant_id and t.process_template_id = s.process_template_id
  and t.slug = coalesce(j.stage_slug, s.current_stage_slug)
where (s.phase = 'stage_complete' or j.id is not null)
  and s.phase not in ('cancelled', 'iteration_complete')
  and case when $1::uuid[] is null then p.status <> 'archived' else s.id = any ($1) end
order by s.id, j.created_at, j.id

-- name: list_contributions
-- The latest version of each contribution, in the order of creation.
select c.id, c.session_id, c.job_id, c.model_name, c.model_index, c.stage, c.iteration_number,
  c.contribution_type, c.target_contribution_id, c.source_contribution_ids, c.source_group,
  c.storage_path, c.is_incomplete, c.is_intermediate, c.is_stale, c.flags, c.edit_version,
  c.size_bytes, c.tokens_used_input, c.tokens_used_output, c.finish_reason, c.created_at,
  list_read_versions(c.tenant_id, c.source_contribution_ids, c.read_version_ids) as read_versions,
  r.mine as my_rating, coalesce(r.count, 0) as rating_count, r.mean as rating_mean
from dialectic_contributions c
left join (
  select f.target_contribution_id, count(*), round(avg(f.rating), 2)::float8 as mean,
    max(f.rating) filter (where f.user_id = $6) as mine
  from dialectic_feedback f
  where f.session_id = $4 and f.rating is not null
  group by f.target_contribution_id
) r on r.target_contribution_id = coalesce(c.original_model_contribution_id, c.id)
where c.session_id = $4 and c.is_latest_edit
  and ($1::timestamptz is null or (c.created_at, c.id) > ($1, $2::uuid))
  and ($5::text is null or c.stage = $5)
order by c.created_at, c.id
limit $3

-- name: list_jobs
-- Errors without the providers' responses, which are long and only for audits.
select j.id, j.parent_job_id, j.prerequisite_job_id, j.job_type, j.stage_slug, j.iteration_number,
  j.payload ->> 'step_name' as step_name, j.output_type, j.target_contribution_id,
  (select c.id from dialectic_contributions c
    where c.tenant_id = j.tenant_id and c.job_id = j.id) as contribution_id,
  j.status, j.status_reason, j.payload ->> 'model_name' as model_name,
  (j.payload ->> 'model_index')::integer as model_index, j.attempt_count, j.retry_count,
  (select coalesce(jsonb_agg(e.entry - 'raw' order by e.nth), '[]')
    from jsonb_array_elements(j.error_details) with ordinality e (entry, nth)) as error_details,
  j.created_at, j.started_at, j.completed_at
from dialectic_generation_jobs j
where j.session_id = $4 and ($1::timestamptz is null or (j.created_at, j.id) > ($1, $2::uuid))
order by j.created_at, j.id
limit $3

-- name: list_documents
-- The other documents of a session: prompts, documents extracted from responses, feedback.
select r.id, r.project_id, r.session_id, r.resource_type, r.document_key, r.stage_slug,
  r.iteration_number, r.storage_path, r.mime_type, r.size_bytes, r.source_contribution_id,
  r.created_at
from dialectic_project_resources r
where r.session_id = $4 and ($1::timestamptz is null or (r.created_at, r.id) > ($1, $2::uuid))
order by r.created_at, r.id
limit $3

-- name: list_resources
-- The files that users gave to a project, and its prompt.
select r.id, r.project_id, r.session_id, r.resource_type, r.document_key, r.stage_slug,
  r.iteration_number, r.storage_path, r.mime_type, r.size_bytes, r.source_contribution_id,
  r.created_at
from dialectic_project_resources r
where r.project_id = $4 and r.session_id is null
  and ($1::timestamptz is null or (r.created_at, r.id) > ($1, $2::uuid))
order by r.created_at, r.id
limit $3

-- name: list_chats
select c.id, c.title, c.created_at,
  (select count(*) from chat_messages m
    where m.tenant_id = c.tenant_id and m.chat_id = c.id and m.is_active_in_thread)::integer as messages
from chats c
where $1::timestamptz is null or (c.created_at, c.id) < ($1, $2::uuid)
order by c.created_at desc, c.id desc
limit $3

-- name: list_system_prompts
select p.id, p.name, p.prompt_text, p.created_at,
  exists (
    select from dialectic_stages s
    where s.tenant_id = p.tenant_id and s.default_system_prompt_id = p.id
  ) as is_role,
  array(
    select distinct t.name from dialectic_process_prompts u
    join dialectic_process_templates t
      on t.tenant_id = u.tenant_id and t.id = u.process_template_id
    where u.tenant_id = p.tenant_id and u.system_prompt_id = p.id
    order by t.name
  ) as processes
from system_prompts p
where $1::timestamptz is null or (p.created_at, p.id) < ($1, $2::uuid)
order by p.created_at desc, p.id desc
limit $3

-- name: list_transactions
select t.id, t.created_at, t.transaction_type, t.is_play, t.amount_credits,
  case when t.to_account = 'wallet' then t.amount_credits
    when t.from_account = 'wallet' then -t.amount_credits else 0 end as change_credits,
  t.balance_after_credits, t.notes, h.purpose, h.model_name, h.session_id, h.stage_slug
from token_wallet_transactions t
left join token_wallet_holds h on h.tenant_id = t.tenant_id and h.hold_key = t.idempotency_key
  and t.transaction_type in ('usage', 'overrun', 'loss')
where t.wallet_id = $3 and ($1::bigint is null or t.id < $1)
order by t.id desc
limit $2

-- name: list_spending
-- The wallet pays for a usage alone; a day is one of UTC.
select (t.created_at at time zone 'UTC')::date as day, h.model_name, t.is_play,
  count(*)::int as calls, sum(t.amount_credits)::bigint as charged_credits
from token_wallet_transactions t
left join token_wallet_holds h on h.tenant_id = t.tenant_id and h.hold_key = t.idempotency_key
where t.wallet_id = $1 and t.transaction_type = 'usage'
  and t.created_at >= date_trunc('day', dialectic.now(), 'UTC') - make_interval(days => $2 - 1)
group by 1, 2, 3
order by 1 desc, 5 desc, 2

-- name: load_document
select r.id, r.project_id, r.session_id, r.resource_type, r.document_key, r.stage_slug,
  r.iteration_number, r.storage_path, r.mime_type, r.size_bytes, r.source_contribution_id,
  r.created_at, r.content
from dialectic_project_resources r
where r.id = $1

-- name: load_ratings
select count(*) as rating_count, round(avg(f.rating), 2)::float8 as rating_mean,
  max(f.rating) filter (where f.user_id = $3) as my_rating
from dialectic_feedback f
where f.session_id = $1 and f.target_contribution_id = $2 and f.rating is not null

-- name: list_feedback
select f.id, f.session_id, f.stage_slug, f.iteration_number, f.feedback_type,
  f.target_contribution_id, f.content, f.rating, f.created_at, f.updated_at, f.subject_id,
  f.subject, f.verdict, f.withdrawn_at,
  jsonb_build_object('user_id', f.user_id, 'name', u.name) as by,
  array_remove(array[
    case when f.user_id = $3 and f.feedback_type <> 'ruling' then 'change' end,
    case when f.withdrawn_at is null and (f.user_id = $3 or s.user_id = $3) then 'remove' end],
    null) as allowed
from dialectic_feedback f
join dialectic_sessions s on s.tenant_id = f.tenant_id and s.id = f.session_id
left join users u on u.id = f.user_id
where ($1::uuid is null or f.session_id = $1) and ($2::uuid is null or f.id = $2)
order by f.iteration_number, f.created_at, f.id

-- name: list_versions
select c.id, c.edit_version, c.is_latest_edit, c.user_id is not null as is_by_user, c.created_at,
  c.model_name, c.size_bytes, c.user_id as author_id, u.name as author_name
from dialectic_contributions c
left join users u on u.id = c.user_id
where c.id = $1 or c.original_model_contribution_id = $1
order by c.edit_version
