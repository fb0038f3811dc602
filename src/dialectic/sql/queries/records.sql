-- Projects, sessions and what is written in them. Rows of the current tenant only.

-- name: open_account
select * from dialectic.open_account($1)

-- name: upsert_domain
insert into dialectic_domains (tenant_id, id, name)
values ($1, $2, $3)
on conflict (tenant_id, id) do nothing

-- name: upsert_prompt
insert into system_prompts (tenant_id, id, name, content_hash, prompt_text)
values ($1, $2, $3, $4, $5)
on conflict (tenant_id, id) do nothing

-- name: upsert_process
insert into dialectic_process_templates (tenant_id, id, name, description, content_hash, definition)
values ($1, $2, $3, $4, $5, $6)
on conflict (tenant_id, id) do nothing
returning id

-- name: insert_stage
insert into dialectic_stages
  (tenant_id, id, process_template_id, slug, display_name, description, position,
   default_system_prompt_id, input_artifact_rules, expected_output_artifacts)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: insert_transition
insert into dialectic_stage_transitions
  (tenant_id, process_template_id, source_stage_id, target_stage_id)
values ($1, $2, $3, $4)

-- name: upsert_model
insert into ai_providers (tenant_id, id, api_identifier, provider, config)
values ($1, $2, $3, $4, $5)
on conflict (tenant_id, id) do update set config = excluded.config, updated_at = dialectic.now()
  where ai_providers.config is distinct from excluded.config

-- name: lock_slug
-- Two projects of one name that are made at the same moment choose their folders one after another.
select pg_advisory_xact_lock(hashtextextended($1::uuid || ' ' || $2, 0))

-- name: slug_is_taken
select exists (select from dialectic_projects where slug = $1)

-- name: session_exists
-- A commit whose answer was lost is tried again and must find what it has already done.
select exists (select from dialectic_sessions where id = $1)

-- name: find_project_slug
select slug from dialectic_projects where id = $1

-- name: insert_project
insert into dialectic_projects
  (tenant_id, id, user_id, project_name, slug, domain_id, initial_user_prompt, status)
values ($1, $2, $3, $4, $5, $6, $7, 'active')

-- name: insert_session
insert into dialectic_sessions
  (tenant_id, id, project_id, user_id, process_template_id, wallet_id, selected_model_ids,
   current_stage_slug, until_stage_slug, status, is_autopilot, continue_until_complete,
   max_output_tokens, max_retries)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: insert_stage_run
insert into dialectic_stage_runs
  (tenant_id, session_id, iteration_number, stage_slug, planned_units)
values ($1, $2, $3, $4, $5)
on conflict do nothing
returning stage_slug

-- name: insert_files
insert into dialectic_files (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
select $1, file.path, $2, file.mime_type, length(file.content), file.sha256, file.content
from unnest($3::text[], $4::text[], $5::text[], $6::bytea[])
  as file (path, mime_type, sha256, content)

-- name: read_waiting_file
select content from dialectic_files where path = $1 and written_at is null

-- name: list_waiting_files_of_project
select path from dialectic_files where project_id = $1 and written_at is null order by path

-- name: list_waiting_files
select * from dialectic.list_waiting_files($1, $2)

-- name: mark_files_written
update dialectic_files
set content = null, written_at = dialectic.now()
where path = any ($1) and written_at is null

-- name: list_files_of_project
select path, mime_type, size_bytes, sha256 from dialectic_files
where project_id = $1 and starts_with(path, $2)
order by path

-- name: insert_resource
insert into dialectic_project_resources
  (tenant_id, id, project_id, user_id, resource_type, session_id, iteration_number, stage_slug,
   content, storage_path, mime_type, size_bytes, notes)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: set_session_status
update dialectic_sessions
set status = $2, status_before_pause = null
where id = $1

-- name: pause_session
update dialectic_sessions
set status_before_pause = status, status = 'paused'
where id = $1 and status not in ('paused', 'cancelled')
returning id

-- name: resume_session
update dialectic_sessions
set status = status_before_pause, status_before_pause = null
where id = $1 and status = 'paused'
returning id

-- name: cancel_session
update dialectic_sessions
set status = 'cancelled', status_before_pause = null
where id = $1 and status <> 'cancelled'
returning id

-- name: cancel_stage_runs
update dialectic_stage_runs
set status = 'cancelled', completed_at = dialectic.now()
where session_id = $1 and status = 'generating'

-- name: find_session_ids
select id from dialectic_sessions where starts_with(id::text, $1) order by created_at desc limit 2

-- name: load_session
select s.id, s.project_id, s.user_id, s.wallet_id, s.status, s.current_stage_slug, s.until_stage_slug,
  s.iteration_count, s.selected_model_ids, s.continue_until_complete, s.max_output_tokens,
  s.max_retries, s.created_at, p.project_name, p.slug as project_slug,
  t.id as process_template_id, t.name as process_name, t.content_hash,
  array(
    select m.api_identifier
    from unnest(s.selected_model_ids) with ordinality as chosen (id, nth)
    join ai_providers m on m.tenant_id = s.tenant_id and m.id = chosen.id
    order by chosen.nth
  ) as model_names
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
join dialectic_process_templates t on t.tenant_id = s.tenant_id and t.id = s.process_template_id
where s.id = $1

-- name: load_process
select definition from dialectic_process_templates where id = $1

-- name: list_sessions
select s.id, s.status, s.created_at, p.project_name, cardinality(s.selected_model_ids) as model_count
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
order by s.created_at desc
limit $1

-- name: list_stage_runs
select stage_slug, iteration_number, status, planned_units, finished_units, started_at, completed_at
from dialectic_stage_runs
where session_id = $1
order by iteration_number, started_at

-- name: load_turn
-- Everything one turn of a stage without steps needs, in one look.
select p.slug as project_slug, p.id as project_id, s.process_template_id, s.max_output_tokens,
  r.content as seed_prompt, r.storage_path as seed_prompt_path
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
join dialectic_project_resources r
  on r.tenant_id = s.tenant_id and r.session_id = s.id and r.resource_type = 'seed_prompt'
  and r.stage_slug = $2 and r.iteration_number = $3
where s.id = $1

-- name: insert_contribution
-- The full record, as it is written, goes to everyone who follows the session.
with written as (
  insert into dialectic_contributions
    (tenant_id, id, session_id, job_id, model_id, model_name, stage, iteration_number,
     contribution_type, root_contribution_id, turn_index, is_incomplete, content, storage_path,
     raw_response_storage_path, size_bytes, prompt_template_name, tokens_used_input,
     tokens_used_output, usage_source, finish_reason, raw_finish_reason, provider_request_id,
     processing_time_ms, flags)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $21, $22, $23, $24, $25)
  returning *
)
select announce(c.session_id, 'dialectic_contribution_received',
  jsonb_build_object('sessionId', c.session_id, 'job_id', c.job_id, 'is_continuing', $26::boolean,
    'contribution', to_jsonb(c) - 'tenant_id' - 'content'))
from written c

-- name: announce
select announce($1, $2, $3)

-- name: list_contributions
select id, model_name, stage, iteration_number, contribution_type, storage_path, is_incomplete,
  size_bytes, tokens_used_input, tokens_used_output, finish_reason, created_at
from dialectic_contributions
where session_id = $1 and is_latest_edit
order by iteration_number, created_at, storage_path

-- name: read_notifications
select * from dialectic.read_notifications($1, $2, $3)
