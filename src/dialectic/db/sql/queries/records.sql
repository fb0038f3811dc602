-- Projects, sessions and their texts. Rows of the current tenant only.

-- name: open_account
select * from dialectic.open_account($1, $2)

-- Two transactions that insert the same row may conflict on any of its unique keys, so `on conflict
-- do nothing` names no key where a conflict means that the row exists.

-- name: upsert_domain
insert into dialectic_domains (tenant_id, id, name)
values ($1, $2, $3)
on conflict do nothing

-- name: insert_process
-- No row if this version exists already.
insert into dialectic_process_templates
  (tenant_id, id, name, title, description, content_hash, definition, starting_stage_id)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict do nothing
returning id

-- name: upsert_prompts
insert into system_prompts (tenant_id, id, name, content_hash, prompt_text)
select $1, p.id, p.name, p.content_hash, p.prompt_text
from unnest($2::uuid[], $3::text[], $4::text[], $5::text[]) as p (id, name, content_hash, prompt_text)
on conflict do nothing

-- name: insert_process_prompts
insert into dialectic_process_prompts (tenant_id, process_template_id, system_prompt_id)
select $1, $2, unnest($3::uuid[])

-- name: insert_stage
insert into dialectic_stages
  (tenant_id, id, process_template_id, slug, display_name, description, position,
   default_system_prompt_id, prompt_template_id, input_artifact_rules, expected_output_artifacts)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: insert_transition
insert into dialectic_stage_transitions
  (tenant_id, process_template_id, source_stage_id, target_stage_id)
values ($1, $2, $3, $4)

-- name: insert_domain_association
insert into domain_process_associations (tenant_id, domain_id, process_template_id)
values ($1, $2, $3)

-- name: upsert_overlay
insert into domain_specific_prompt_overlays
  (tenant_id, id, system_prompt_id, domain_id, overlay_values, content_hash)
values ($1, $2, $3, $4, $5, $6)
on conflict do nothing

-- name: insert_process_overlay
insert into dialectic_process_overlays (tenant_id, process_template_id, overlay_id)
values ($1, $2, $3)

-- name: upsert_model
with made as (
  insert into ai_providers (tenant_id, id, api_identifier, provider, config)
  values ($1, $2, $3, $4, $5)
  on conflict do nothing
)
update ai_providers
set config = $5, updated_at = dialectic.now()
where id = $2 and config is distinct from $5::jsonb

-- name: lock_slug
-- Serialise the choice of a folder by two projects of the same name.
select pg_advisory_xact_lock(hashtextextended($1::uuid || ' ' || $2, 0))

-- name: slug_is_taken
-- Includes files of deleted projects: a new project's files would be deleted with them.
select exists (select from dialectic_projects where slug = $1)
  or exists (select from dialectic_discarded_files where folder = $1)

-- name: session_exists
-- Idempotent: a retry after a lost commit response must find its own row.
select exists (select from dialectic_sessions where id = $1)

-- name: find_project_slug
select slug from dialectic_projects where id = $1

-- name: insert_project
insert into dialectic_projects
  (tenant_id, id, user_id, project_name, slug, domain_id, initial_user_prompt,
   user_domain_overlay_values, status)
values ($1, $2, $3, $4, $5, $6, $7, $8, 'active')

-- name: load_project
select p.id, p.project_name, p.slug, p.initial_user_prompt, p.status, p.created_at, d.name as domain,
  coalesce(p.user_domain_overlay_values ->> 'overlay', '') as overlay
from dialectic_projects p
join dialectic_domains d on d.tenant_id = p.tenant_id and d.id = p.domain_id
where p.id = $1

-- name: change_project
update dialectic_projects
set project_name = $2, status = $3, domain_id = coalesce($4, domain_id),
  user_domain_overlay_values = $5
where id = $1

-- name: list_domains_of_sessions
-- The domains of the processes that the sessions of a project pinned, and whether all have them.
select d.name, count(distinct a.process_template_id) = max(pinned.count) as is_shared
from (
  select s.tenant_id, s.process_template_id, count(*) over () as count
  from dialectic_sessions s
  where s.project_id = $1
  group by s.tenant_id, s.process_template_id
) pinned
join domain_process_associations a
  on a.tenant_id = pinned.tenant_id and a.process_template_id = pinned.process_template_id
join dialectic_domains d on d.tenant_id = a.tenant_id and d.id = a.domain_id
group by d.name
order by d.name

-- name: find_resource
select resource_type, storage_path from dialectic_project_resources
where project_id = $1 and id = $2 and session_id is null

-- name: delete_resource
-- With its pieces in the search index.
with indexed as (
  delete from dialectic_memory_sources where source_id = $2
)
delete from dialectic_project_resources where project_id = $1 and id = $2

-- name: lock_project
-- A transaction that adds a session or a document waits, then finds the project deleted.
select from dialectic_projects where id = $1 for update

-- name: hold_sessions_of_project
select dialectic.hold_session(s.id)
from (select id from dialectic_sessions where project_id = $1 order by id) s

-- name: lock_sessions_of_project
-- Likewise a transaction that adds a job to one of the sessions.
select from dialectic_sessions where project_id = $1 order by id for update

-- name: project_has_open_jobs
select exists (
  select from dialectic_generation_jobs j
  join dialectic_sessions s on s.tenant_id = j.tenant_id and s.id = j.session_id
  where s.project_id = $1 and not dialectic.is_ended(j.status)
)

-- name: delete_project
-- Foreign keys cascade to everything that belongs to it.
delete from dialectic_projects where id = $1

-- name: insert_session
-- $12: the options of the request; those that are stored have the names of their columns.
insert into dialectic_sessions
  (tenant_id, id, project_id, user_id, process_template_id, wallet_id, selected_model_ids,
   lead_model_index, current_stage_slug, until_stage_slug, max_retries, session_description,
   is_autopilot, pause_on_dissent, continue_until_complete, wait_for_all, max_output_tokens,
   full_answers_only, approve_spend)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, asked.session_description,
  asked.is_autopilot, asked.pause_on_dissent, asked.continue_until_complete, asked.wait_for_all,
  asked.max_output_tokens,
  asked.full_answers_only, asked.approve_spend
from jsonb_populate_record(null::dialectic_sessions, $12) asked

-- name: insert_stage_run
insert into dialectic_stage_runs
  (tenant_id, session_id, iteration_number, stage_slug, position, is_last, planned_units, step_units,
   seats, status)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'waiting')
on conflict do nothing
returning stage_slug

-- name: begin_stage_run
select begin_stage($1, $2, $3)

-- name: change_total
-- $5: the planned documents by their types.
update dialectic_stage_runs
set planned_units = greatest($4, finished_units),
    step_units = (
      select jsonb_object_agg(step.key, step.value || jsonb_build_object('planned', greatest(
        coalesce(($5::jsonb ->> step.key)::integer, 0), (step.value ->> 'finished')::integer)))
      from jsonb_each(step_units) step
    )
where session_id = $1 and iteration_number = $2 and stage_slug = $3 and completed_at is null

-- name: list_files_of_project
select path, mime_type, size_bytes, sha256 from dialectic_files
where project_id = $1 and starts_with(path, $2)
order by path

-- name: list_taken_paths
-- The paths below a folder that a new file must not have: a removed file may still be deleted.
select path from dialectic_files where project_id = $1 and starts_with(path, $2)
union
select path from dialectic_discarded_files where starts_with(path, $2)

-- name: put_resources
select put_resources($1, $2, $3, $4)

-- name: mark_generating
update dialectic_sessions set phase = 'generating' where id = $1

-- name: pause_session
update dialectic_sessions
set phase_before_pause = phase, phase = 'paused'
where id = $1 and phase not in ('paused', 'cancelled')
returning id

-- name: session_has_open_jobs
select exists (
  select from dialectic_generation_jobs where session_id = $1 and not dialectic.is_ended(status)
)

-- name: resume_session
update dialectic_sessions
set phase = phase_before_pause, phase_before_pause = null
where id = $1 and phase = 'paused'
returning id

-- name: cancel_session
update dialectic_sessions
set phase = 'cancelled', phase_before_pause = null
where id = $1 and phase <> 'cancelled'
returning id

-- name: cancel_stage_runs
update dialectic_stage_runs
set status = 'cancelled', completed_at = dialectic.now()
where session_id = $1 and status in ('waiting', 'generating')

-- name: find_session_ids
select id from dialectic_sessions
where starts_with(replace(id::text, '-', ''), $1)
order by created_at desc
limit 5

-- name: load_session
select s.id, s.project_id, s.user_id, s.wallet_id, s.session_description, s.phase,
  s.current_stage_slug, s.until_stage_slug, s.iteration_count, s.selected_model_ids, s.dropped_seats,
  s.lead_model_index, s.is_autopilot, s.pause_on_dissent, s.wait_for_all, s.continue_until_complete, s.max_output_tokens,
  s.full_answers_only, s.max_retries, s.created_at, p.project_name,
  p.slug as project_slug, t.id as process_template_id, t.name as process_name, t.content_hash,
  g.budget_credits, coalesce(g.spent_credits, 0) as spent_credits,
  coalesce(g.play_spent_credits, 0) as play_spent_credits,
  array(
    select m.api_identifier
    from unnest(s.selected_model_ids) with ordinality as chosen (id, nth)
    join ai_providers m on m.tenant_id = s.tenant_id and m.id = chosen.id
    order by chosen.nth
  ) as model_names,
  cardinality(s.selected_model_ids) - cardinality(s.dropped_seats) as model_count,
  (select m.api_identifier from ai_providers m
    where m.tenant_id = s.tenant_id and m.id = s.selected_model_ids[s.lead_model_index]) as lead
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
join dialectic_process_templates t on t.tenant_id = s.tenant_id and t.id = s.process_template_id
left join dialectic_session_spending g on g.tenant_id = s.tenant_id and g.session_id = s.id
where s.id = $1

-- name: change_session
update dialectic_sessions
set continue_until_complete = coalesce($2, continue_until_complete),
    max_output_tokens = case when not $4 then coalesce($3, max_output_tokens) end,
    full_answers_only = coalesce($5, full_answers_only),
    wait_for_all = coalesce($6, wait_for_all)
where id = $1

-- name: set_full_answers_only
update dialectic_sessions set full_answers_only = $2 where id = $1

-- name: change_seats
update dialectic_sessions
set selected_model_ids = $2, dropped_seats = $3, lead_model_index = $4
where id = $1

-- name: has_stage_runs
select exists (select from dialectic_stage_runs where session_id = $1)

-- name: bring_back_failed
-- The seats that left because their part of a stage failed take part again; returns them.
with failed as (
  select distinct (j.payload ->> 'model_index')::integer as seat
  from dialectic_generation_jobs j
  where j.session_id = $1 and j.iteration_number = $2 and j.parent_job_id is null
    and j.job_type is distinct from 'combine' and j.payload ->> 'replaces' is null
    and j.status in ('failed', 'retry_loop_failed')
), back as (
  update dialectic_sessions s
  set dropped_seats = array(
    select d from unnest(s.dropped_seats) d where d not in (select f.seat from failed f))
  where s.id = $1
), rejoined as (
  update dialectic_stage_runs r
  set lost_seats = array(
    select l from unnest(r.lost_seats) l where l not in (select f.seat from failed f))
  where r.session_id = $1 and r.iteration_number = $2 and r.completed_at is null
)
select seat from failed

-- name: drop_seat
select dialectic.drop_seat($1, $2, $3)

-- name: settle_stages
select dialectic.settle_stages($1, $2)

-- name: rejoin_stages
-- A seat takes part again in the stages of an iteration that have not ended.
update dialectic_stage_runs
set lost_seats = array_remove(lost_seats, $3)
where session_id = $1 and iteration_number = $2 and completed_at is null

-- name: hold_session
-- First statement of every action that moves the jobs of a session.
select dialectic.hold_session($1)

-- name: hold_funded
-- Hold the sessions that a change of a wallet will resume, in the order of their ids.
select dialectic.hold_session(waiting.id)
from (
  select s.id from dialectic_sessions s
  where s.wallet_id = $1 and exists (
    select from dialectic_generation_jobs j
    where j.session_id = s.id
      and j.status = 'paused' and j.status_reason in ('insufficient_funds', 'spend_needs_approval'))
  order by s.id
) waiting

-- name: lock_session
-- Serialise other writers, such as two of the same file.
select id from dialectic_sessions where id = $1 for no key update

-- name: begin_stage
update dialectic_sessions
set current_stage_slug = $2, until_stage_slug = $3, iteration_count = $4, phase = 'pending'
where id = $1

-- name: reopen_stages
-- Resume the failed stage; later stages wait for it again.
update dialectic_stage_runs r
set status = case when r.stage_slug = $3 then 'generating' else 'waiting' end, completed_at = null
where r.session_id = $1 and r.iteration_number = $2 and r.status in ('failed', 'cancelled')

-- name: load_process
select definition, content_hash from dialectic_process_templates where id = $1

-- name: list_stage_runs
select stage_slug, iteration_number, status, planned_units, finished_units, seats, lost_seats,
  started_at, completed_at
from dialectic_stage_runs
where session_id = $1
order by iteration_number, position

-- name: list_plan_sources
-- For each complete stage that promises a plan: the model whose checklist fills Pending/, or null.
select r.stage_slug, r.iteration_number, f.model_name,
  coalesce(f.model_index = s.lead_model_index, false) as is_lead
from dialectic_sessions s
join dialectic_stages t on t.tenant_id = s.tenant_id and t.process_template_id = s.process_template_id
  and t.expected_output_artifacts @> '{"documents": [{"fills_pending": true}]}'
join dialectic_stage_runs r on r.tenant_id = s.tenant_id and r.session_id = s.id
  and r.stage_slug = t.slug and r.status = 'complete'
left join lateral (
  select c.model_name, c.model_index
  from dialectic_contributions c
  join dialectic_project_resources p
    on p.tenant_id = c.tenant_id and p.source_contribution_id = c.id and p.resource_type = 'work_item'
  where c.tenant_id = s.tenant_id and c.session_id = s.id
    and c.iteration_number = r.iteration_number and c.stage = r.stage_slug
  limit 1
) f on true
where s.id = $1
order by r.iteration_number, r.position

-- name: list_plan_answers
-- The models of a stage in the order in which their checklists count: the lead, then those after it.
-- The caller holds the lock of the stage's row.
select m.model_index, c.model_name, c.id as contribution_id, c.content,
  c.id is null and not m.has_ended as is_awaited,
  exists (
    select from dialectic_project_resources p
    where p.tenant_id = c.tenant_id and p.source_contribution_id = c.id
      and p.resource_type = 'work_item'
  ) as has_filled
from dialectic_sessions s
cross join lateral (
  select (j.payload ->> 'model_index')::integer as model_index,
    bool_and(dialectic.is_ended(j.status)) as has_ended
  from dialectic_generation_jobs j
  where j.tenant_id = s.tenant_id and j.session_id = s.id and j.iteration_number = $2
    and j.stage_slug = $3 and j.parent_job_id is null and j.payload ->> 'replaces' is null
    and j.job_type is distinct from 'combine'
  group by 1
) m
left join dialectic_contributions c
  on c.tenant_id = s.tenant_id and c.session_id = s.id and c.iteration_number = $2 and c.stage = $3
  and c.contribution_type = $4 and c.model_index = m.model_index
  and c.edit_version = 1
where s.id = $1
order by (m.model_index - s.lead_model_index + cardinality(s.selected_model_ids))
  % cardinality(s.selected_model_ids), c.rank

-- name: save_document
select save_document($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: insert_chunk
insert into dialectic_chunks
  (tenant_id, id, session_id, job_id, root_contribution_id, turn_index, stage, iteration_number,
   model_name, opening, content, storage_path, raw_response_storage_path, size_bytes,
   tokens_used_input, tokens_used_output, usage_source, finish_reason, raw_finish_reason,
   provider_request_id, processing_time_ms, flags, manifest)
select tenant_id, id, session_id, job_id, root_contribution_id, turn_index, stage, iteration_number,
  model_name, opening, content, storage_path, raw_response_storage_path, size_bytes,
  tokens_used_input, tokens_used_output, usage_source, finish_reason, raw_finish_reason,
  provider_request_id, processing_time_ms, flags, manifest
from jsonb_populate_record(null::dialectic_chunks, $1)

-- name: list_chunks
-- The turns of one document, for display.
select id, turn_index, storage_path, finish_reason, tokens_used_output, manifest
from dialectic_chunks where root_contribution_id = $1 order by turn_index

-- name: read_chunks
-- The turns of one document so far.
select turn_index as turn, content as text, finish_reason, raw_finish_reason,
  jsonb_build_object('input_tokens', tokens_used_input, 'output_tokens', tokens_used_output,
    'source', usage_source) as usage,
  provider_request_id as request_id, processing_time_ms as elapsed_ms, flags, opening, manifest,
  storage_path as path, raw_response_storage_path as raw_path, model_name
from dialectic_chunks where root_contribution_id = $1 order by turn_index

-- name: load_chunk
select * from dialectic_chunks where id = $1

-- name: find_chunk_ids
select id from dialectic_chunks where starts_with(replace(id::text, '-', ''), $1) limit 5

-- name: announce
select announce($1, $2, $3)

-- name: list_contributions
-- The latest version of each contribution, in the order of the process.
select c.id, c.job_id, c.model_name, c.model_index, c.stage, c.iteration_number,
  c.contribution_type, c.target_contribution_id, c.source_contribution_ids, c.source_group,
  c.storage_path, c.is_incomplete, c.is_intermediate, c.is_stale, c.flags, c.edit_version, c.size_bytes,
  c.tokens_used_input, c.tokens_used_output, c.finish_reason, c.created_at,
  list_read_versions(c.tenant_id, c.source_contribution_ids, c.read_version_ids) as read_versions
from dialectic_contributions c
left join dialectic_stage_runs r
  on r.tenant_id = c.tenant_id and r.session_id = c.session_id
  and r.iteration_number = c.iteration_number and r.stage_slug = c.stage
where c.session_id = $1 and c.is_latest_edit
order by c.iteration_number, r.position, c.contribution_type, c.model_index, c.rank, c.storage_path

-- name: load_scene
-- Everything that a job needs of its session, in one query. Feedback is that of this iteration and
-- the previous one; $3 are the types of resource that a user gives to a project.
select s.id as session_id, s.project_id, s.user_id, s.wallet_id, s.process_template_id,
  -- Where dissent is waited for, stages are made one by one.
  s.is_autopilot and not s.pause_on_dissent as is_autopilot,
  s.continue_until_complete as continues, s.max_output_tokens, s.full_answers_only, s.approve_spend,
  s.max_retries, s.lead_model_index,
  s.selected_model_ids as model_ids, s.dropped_seats,
  (
    select max(seat) from dialectic_stage_runs r cross join lateral unnest(r.seats) seat
    where r.tenant_id = s.tenant_id and r.session_id = s.id and r.iteration_number = 1
      and r.position = 1
  ) as seats_first,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'stage_slug', r.stage_slug, 'seats', r.seats, 'lost_seats', r.lost_seats,
      'planned_units', r.planned_units)
      order by r.position), '[]')
    from dialectic_stage_runs r
    where r.tenant_id = s.tenant_id and r.session_id = s.id and r.iteration_number = $2
  ) as seated,
  p.slug as project_slug, p.project_name, d.name as domain,
  concat_ws(e'\n\n', p.initial_user_prompt, nullif(s.session_description, '')) as request,
  coalesce(p.user_domain_overlay_values ->> 'overlay', '') as overlay,
  not exists (
    select from dialectic_sessions o
    where o.tenant_id = s.tenant_id and o.project_id = s.project_id
      and (o.created_at, o.id) < (s.created_at, s.id)
  ) as is_first,
  array(
    select m.api_identifier
    from unnest(s.selected_model_ids) with ordinality as chosen (id, nth)
    join ai_providers m on m.tenant_id = s.tenant_id and m.id = chosen.id
    order by chosen.nth
  ) as models,
  array(
    select r.stage_slug from dialectic_project_resources r
    where r.tenant_id = s.tenant_id and r.session_id = s.id and r.iteration_number = $2
      and r.resource_type = 'seed_prompt'
  ) as seeded,
  array(
    select r.stage_slug from dialectic_stage_runs r
    where r.tenant_id = s.tenant_id and r.session_id = s.id and r.iteration_number = $2
      and r.status = 'waiting'
  ) as waiting,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'stage', f.stage_slug, 'iteration', f.iteration_number, 'content', f.content,
      'rating', f.rating, 'target', case when c.id is not null then jsonb_build_object(
        'type', c.contribution_type, 'origin', c.origin, 'model_index', c.model_index,
        'is_origin', c.source_group is null) end
    ) order by f.iteration_number, f.created_at, f.id), '[]')
    from dialectic_feedback f
    left join dialectic_contributions c
      on c.tenant_id = f.tenant_id and c.id = f.target_contribution_id
    where f.tenant_id = s.tenant_id and f.session_id = s.id
      and f.iteration_number between $2 - 1 and $2 and f.feedback_type <> 'ruling'
  ) as feedback,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'stage', f.stage_slug, 'iteration', f.iteration_number, 'subject', f.subject,
      'verdict', f.verdict, 'upheld', f.upheld, 'content', f.content
    ) order by f.created_at, f.id), '[]')
    from dialectic_feedback f
    where f.tenant_id = s.tenant_id and f.session_id = s.id
      and f.iteration_number <= $2 and f.feedback_type = 'ruling' and f.withdrawn_at is null
  ) as rulings,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'type', r.resource_type, 'content', r.content) order by r.resource_type, r.storage_path), '[]')
    from dialectic_project_resources r
    where r.tenant_id = s.tenant_id and r.project_id = s.project_id and r.session_id is null
      and r.resource_type = any ($3)
  ) as context
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
join dialectic_domains d on d.tenant_id = p.tenant_id and d.id = p.domain_id
where s.id = $1

-- name: read_situation
-- The state of an iteration in one snapshot: every finished document, by the id of its first
-- version; the progress of each plan job; the stages that have ended.
select
  (select coalesce(json_agg(json_build_object(
      'id', coalesce(c.original_model_contribution_id, c.id), 'type', c.contribution_type,
      'stage_slug', c.stage, 'model_index', c.model_index, 'rank', c.rank,
      'source_group', c.source_group, 'origin', c.origin, 'model_name', c.model_name)), '[]')
    from dialectic_contributions c
    where c.session_id = $1 and c.iteration_number = $2 and c.is_latest_edit
  ) as documents,
  (select coalesce(json_agg(json_build_object(
      'stage_slug', j.stage_slug, 'model_index', (j.payload ->> 'model_index')::integer,
      'current_step', j.current_step, 'has_ended', is_ended(j.status))), '[]')
    from dialectic_generation_jobs j
    where j.session_id = $1 and j.iteration_number = $2 and j.parent_job_id is null
      and j.payload ->> 'replaces' is null and j.job_type is distinct from 'combine'
  ) as progress,
  array(
    select r.stage_slug from dialectic_stage_runs r
    where r.session_id = $1 and r.iteration_number = $2
      and r.status in ('complete', 'failed', 'cancelled')
    order by r.position
  ) as over

-- name: read_documents
-- The latest text of each document, by the id of its first version.
select coalesce(c.original_model_contribution_id, c.id) as id, c.id as version_id,
  c.contribution_type as type, c.stage as stage_slug,
  c.model_index, c.rank, c.origin, c.source_group, c.storage_path as path, c.content
from dialectic_contributions c
where c.session_id = $1 and c.is_latest_edit
  and coalesce(c.original_model_contribution_id, c.id) = any ($2)

-- name: read_versions
-- The texts of the given versions.
select coalesce(c.original_model_contribution_id, c.id) as id, c.id as version_id,
  c.contribution_type as type, c.stage as stage_slug,
  c.model_index, c.rank, c.origin, c.source_group, c.storage_path as path, c.content
from dialectic_contributions c
where c.session_id = $1 and c.id = any ($2)

-- name: list_outcomes
-- The documents of the last completed stage of an iteration.
select coalesce(c.original_model_contribution_id, c.id) as id
from dialectic_contributions c
join (
  select stage_slug from dialectic_stage_runs
  where session_id = $1 and iteration_number = $2 and status = 'complete'
  order by position desc limit 1
) last on last.stage_slug = c.stage
where c.session_id = $1 and c.iteration_number = $2 and c.is_latest_edit
  and not c.is_intermediate
order by c.model_index, c.rank

-- name: supersede
-- A newer version supersedes the earlier ones.
update dialectic_contributions
set is_latest_edit = false
where is_latest_edit and (id = $1 or original_model_contribution_id = $1)

-- name: mark_stale
-- All documents derived from a document, directly or indirectly, in its session.
with recursive made as (
  select c.id, c.source_contribution_ids, c.original_model_contribution_id
  from dialectic_contributions c
  where c.session_id = (select o.session_id from dialectic_contributions o where o.id = $1)
),
derived (id) as (
  select m.id from made m where m.source_contribution_ids @> array[$1::uuid]
  union
  select m.id
  from derived d
  join made m
    on m.source_contribution_ids @> array[d.id]
    or m.original_model_contribution_id = d.id
)
update dialectic_contributions c
set is_stale = true
from derived d
where c.id = d.id and not c.is_stale
returning c.id

-- name: list_stale
-- The newest versions of a session's stale documents, oldest first, with the open job that writes
-- each again, if there is one.
select c.id, coalesce(c.original_model_contribution_id, c.id) as first_id, c.stage,
  c.iteration_number, c.contribution_type, c.model_name, c.model_index, c.rank, c.storage_path,
  c.source_contribution_ids, c.user_id is not null as is_by_user,
  exists (
    select from dialectic_contributions f
    join dialectic_generation_jobs j on j.tenant_id = f.tenant_id and j.id = f.job_id
    where f.tenant_id = c.tenant_id
      and f.id = coalesce(c.original_model_contribution_id, c.id)
  ) as has_job,
  (
    select j.id from dialectic_generation_jobs j
    where j.session_id = c.session_id and not dialectic.is_ended(j.status)
      and j.payload ->> 'replaces' = coalesce(c.original_model_contribution_id, c.id)::text
    order by j.created_at desc
    limit 1
  ) as job_id
from dialectic_contributions c
where c.session_id = $1 and c.is_latest_edit and c.is_stale
order by c.iteration_number, c.created_at, c.id

-- name: list_incomplete
-- The newest versions of a session's documents that a model was cut off in, oldest first, with the
-- versions that they went on with, their last turn, and the open job that writes each again.
select c.id, coalesce(c.original_model_contribution_id, c.id) as first_id, c.stage,
  c.iteration_number, c.contribution_type, c.model_name, c.model_index, c.rank,
  array(
    select e.id::uuid
    from jsonb_array_elements_text(coalesce(j.payload -> 'continues', '[]')) with ordinality e (id, nth)
    order by e.nth
  ) as continues,
  k.tokens_used_input as last_input_tokens, k.tokens_used_output as last_output_tokens,
  (
    select o.id from dialectic_generation_jobs o
    where o.session_id = c.session_id and not dialectic.is_ended(o.status)
      and o.payload ->> 'replaces' = coalesce(c.original_model_contribution_id, c.id)::text
    order by o.created_at desc
    limit 1
  ) as open_job_id
from dialectic_contributions c
left join dialectic_generation_jobs j on j.tenant_id = c.tenant_id and j.id = c.job_id
left join lateral (
  select n.tokens_used_input, n.tokens_used_output
  from dialectic_chunks n
  where n.tenant_id = c.tenant_id and n.root_contribution_id = c.id
  order by n.turn_index desc
  limit 1
) k on true
where c.session_id = $1 and c.is_latest_edit and c.is_incomplete and c.user_id is null
order by c.iteration_number, c.created_at, c.id

-- name: list_first_versions
select c.id, coalesce(c.original_model_contribution_id, c.id) as first_id
from dialectic_contributions c
where c.session_id = $1 and c.id = any ($2)

-- name: load_contribution
select c.id, c.session_id, c.job_id, c.model_id, c.model_name, c.model_index, c.stage,
  c.iteration_number, c.contribution_type, c.source_group, c.target_contribution_id, c.rank, c.origin,
  c.source_contribution_ids, c.read_version_ids, c.words_hash,
  list_read_versions(c.tenant_id, c.source_contribution_ids, c.read_version_ids) as read_versions,
  c.read_version_ids[array_position(c.source_contribution_ids, c.target_contribution_id)]
    as target_version_id,
  c.is_intermediate, c.is_incomplete, c.is_stale, c.is_latest_edit,
  c.flags, c.content, c.storage_path, c.raw_response_storage_path, c.prompt_template_name,
  c.tokens_used_input, c.tokens_used_output, c.usage_source, c.finish_reason, c.edit_version,
  c.original_model_contribution_id, c.user_id, c.created_at, c.manifest,
  coalesce(c.original_model_contribution_id, c.id) as first_id, c.user_id is not null as is_by_user,
  s.project_id, j.results
from dialectic_contributions c
join dialectic_sessions s on s.tenant_id = c.tenant_id and s.id = c.session_id
left join dialectic_generation_jobs j on j.tenant_id = c.tenant_id and j.id = c.job_id
where c.id = $1

-- name: find_contribution_ids
select id from dialectic_contributions where starts_with(replace(id::text, '-', ''), $1) limit 5

-- name: load_newest_version
select id, edit_version, content, storage_path from dialectic_contributions
where is_latest_edit and (id = $1 or original_model_contribution_id = $1)

-- name: find_stage_status
select status from dialectic_stage_runs
where session_id = $1 and iteration_number = $2 and stage_slug = $3

-- name: lock_versions
-- Serialise two writers of the next version.
select id from dialectic_contributions where id = $1 for no key update

-- name: find_last_version
select greatest(
  (select max(edit_version) from dialectic_contributions
   where id = $1 or original_model_contribution_id = $1),
  (select max((payload ->> 'edition')::integer) from dialectic_generation_jobs
   where session_id = $2 and payload ->> 'replaces' = $1::uuid::text))

-- name: insert_edit
-- A user's version of a document: it copies everything except the text and the author.
with written as (
  insert into dialectic_contributions
    (tenant_id, id, session_id, user_id, model_id, model_name, model_index, stage, iteration_number,
     contribution_type, source_group, target_contribution_id, rank,
     origin, source_contribution_ids, read_version_ids, is_intermediate, flags, content, storage_path,
     size_bytes, prompt_template_name, edit_version, original_model_contribution_id, title, excerpt,
     words)
  select c.tenant_id, $2, c.session_id, $3, c.model_id, c.model_name, c.model_index, c.stage,
    c.iteration_number, c.contribution_type, c.source_group,
    c.target_contribution_id, c.rank, c.origin, c.source_contribution_ids, c.read_version_ids,
    c.is_intermediate, $4, $5, $6, $7, c.prompt_template_name, $8, c.id, $10, $11, $12
  from dialectic_contributions c
  where c.id = $1
  returning *
)
select announce(c.session_id, 'dialectic_contribution_received',
  jsonb_build_object('sessionId', c.session_id, 'job_id', null, 'is_continuing', false,
    'contribution', to_jsonb(c) - '{tenant_id, content, title, words, changed_in}'::text[]
      || jsonb_build_object('excerpt', $9::text)))
from written c

-- name: insert_feedback
insert into dialectic_feedback
  (tenant_id, id, session_id, user_id, stage_slug, iteration_number, target_contribution_id,
   feedback_type, content, rating)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (tenant_id, id) do nothing

-- name: insert_ruling
insert into dialectic_feedback
  (tenant_id, id, session_id, user_id, stage_slug, iteration_number, feedback_type, content,
   subject_id, subject, verdict, position_id, upheld, rejected)
values (current_tenant(), $1, $2, $3, $4, $5, 'ruling', $6, $7, $8, $9, $10, $11, $12)
on conflict (tenant_id, id) do nothing

-- name: find_ruling
-- Its writers lock the session first.
select id, session_id, user_id, stage_slug, iteration_number
from dialectic_feedback
where session_id = $1 and subject_id = $2 and withdrawn_at is null

-- name: withdraw_ruling
update dialectic_feedback set withdrawn_at = dialectic.now()
where id = $1 and withdrawn_at is null

-- name: list_rulings
-- Those that count, oldest first.
select f.id, f.session_id, f.stage_slug, f.iteration_number, f.subject_id, f.subject, f.verdict,
  f.position_id, f.upheld, f.rejected, f.content, f.created_at,
  jsonb_build_object('user_id', f.user_id, 'name', u.name) as by
from dialectic_feedback f
left join users u on u.id = f.user_id
where f.session_id = $1 and f.feedback_type = 'ruling' and f.withdrawn_at is null
order by f.created_at, f.id

-- name: delete_own_ratings
-- A person has one rating of a document: the last.
delete from dialectic_feedback
where session_id = $1 and user_id = $2 and rating is not null
  and target_contribution_id = any ($3) and id <> all ($4)

-- name: load_feedback
-- Its writers lock the session first.
select session_id, stage_slug, iteration_number, user_id, feedback_type, content, rating
from dialectic_feedback
where id = $1

-- name: change_feedback
update dialectic_feedback set content = $2, rating = $3, updated_at = dialectic.now()
where id = $1

-- name: delete_feedback
delete from dialectic_feedback where id = $1

-- name: list_feedback
select stage_slug, iteration_number, target_contribution_id, feedback_type, content, rating,
  subject, verdict, upheld, created_at
from dialectic_feedback
where session_id = $1 and withdrawn_at is null
order by iteration_number, created_at, id

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
where j.session_id = $1
order by j.iteration_number, j.created_at, j.id
