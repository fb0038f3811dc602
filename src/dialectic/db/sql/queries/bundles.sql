-- A whole project, read in one look and written in one commit. Rows of the current tenant only.

-- name: find_projects
-- By folder, by name, by the beginning of its id or of a session's, or by that of its folder or name.
with wanted as (
  select lower($1) as beginning, nullif(replace(lower($1), '-', ''), '') as digits
)
select p.id, p.slug, found.rank
from dialectic_projects p
cross join wanted w
cross join lateral (
  select case
    when p.slug = $1 then 1
    when p.project_name = $1 then 2
    when starts_with(replace(p.id::text, '-', ''), w.digits) or exists (
      select from dialectic_sessions s
      where s.tenant_id = p.tenant_id and s.project_id = p.id
        and starts_with(replace(s.id::text, '-', ''), w.digits)) then 3
    when starts_with(p.slug, w.beginning) or starts_with(lower(p.project_name), w.beginning) then 4
  end as rank
) found
where found.rank is not null
order by found.rank, p.created_at desc
limit 10

-- name: read_project
-- One statement, hence one moment: no row is newer than another. Texts and bytes are fetched one by
-- one afterwards and held against the hashes found here.
with project as (
  select * from dialectic_projects where id = $1
), sessions as (
  select s.* from dialectic_sessions s join project p on p.id = s.project_id
), processes as (
  select t.* from dialectic_process_templates t
  where t.id in (select process_template_id from sessions)
), prompts as (
  select sp.* from system_prompts sp
  where sp.id in (
    select used.system_prompt_id from dialectic_process_prompts used
    join processes t on t.id = used.process_template_id)
), contributions as (
  select c.* from dialectic_contributions c join sessions s on s.id = c.session_id
)
select
  (select jsonb_agg(to_jsonb(p)) from project p) as dialectic_projects,
  (select jsonb_agg(to_jsonb(d)) from dialectic_domains d join project p on p.domain_id = d.id)
    as dialectic_domains,
  (select jsonb_agg(to_jsonb(t)) from processes t) as dialectic_process_templates,
  (select jsonb_agg(to_jsonb(g)) from dialectic_stages g
    where g.process_template_id in (select id from processes)) as dialectic_stages,
  (select jsonb_agg(to_jsonb(a)) from dialectic_stage_transitions a
    where a.process_template_id in (select id from processes)) as dialectic_stage_transitions,
  (select jsonb_agg(to_jsonb(a)) from domain_process_associations a
    join project p on p.domain_id = a.domain_id
    where a.process_template_id in (select id from processes)) as domain_process_associations,
  (select jsonb_agg(to_jsonb(o)) from domain_specific_prompt_overlays o
    join project p on p.domain_id = o.domain_id
    where o.id in (
      select used.overlay_id from dialectic_process_overlays used
      join processes t on t.id = used.process_template_id)) as domain_specific_prompt_overlays,
  (select jsonb_agg(to_jsonb(sp)) from prompts sp) as system_prompts,
  (select jsonb_agg(to_jsonb(m)) from ai_providers m
    where m.id in (select unnest(selected_model_ids) from sessions)
      or m.id in (select model_id from contributions)) as ai_providers,
  (select jsonb_agg(to_jsonb(s)) from sessions s) as dialectic_sessions,
  (select jsonb_agg(to_jsonb(r)) from dialectic_stage_runs r
    join sessions s on s.id = r.session_id) as dialectic_stage_runs,
  (select jsonb_agg(to_jsonb(c) - 'content' || jsonb_build_object(
      'is_by_user', c.user_id is not null, 'content_in', 'row',
      'content_sha256', encode(sha256(convert_to(c.content, 'UTF8')), 'hex')))
    from contributions c) as dialectic_contributions,
  (select jsonb_agg(to_jsonb(k) - 'content' - 'opening' || jsonb_build_object('content_in', 'row',
      'content_sha256', encode(sha256(convert_to(k.content, 'UTF8')), 'hex')))
    from dialectic_chunks k join sessions s on s.id = k.session_id) as dialectic_chunks,
  (select jsonb_agg(to_jsonb(f)) from dialectic_feedback f
    join sessions s on s.id = f.session_id) as dialectic_feedback,
  (select jsonb_agg(to_jsonb(r) - 'content' || jsonb_build_object('content_in', 'row',
      'content_sha256', encode(sha256(convert_to(r.content, 'UTF8')), 'hex')))
    from dialectic_project_resources r join project p on p.id = r.project_id)
    as dialectic_project_resources,
  (select jsonb_agg(jsonb_build_object('path', f.path, 'mime_type', f.mime_type,
      'size_bytes', f.size_bytes, 'sha256', f.sha256))
    from dialectic_files f join project p on p.id = f.project_id) as dialectic_files

-- name: read_file
select sha256, content from dialectic_files where path = $1

-- name: read_text
select content from dialectic_contributions where id = $1
union all
select content from dialectic_chunks where id = $1
union all
select content from dialectic_project_resources where id = $1

-- name: allow_long_transaction
-- A whole project takes longer than any other commit. From version 17 on the server would end it.
select set_config('transaction_timeout', '0', true)
where current_setting('server_version_num')::integer >= 170000

-- name: project_exists
select slug from dialectic_projects where id = $1

-- name: ids_are_taken
select exists (select from dialectic_projects where id = any ($1))
  or exists (select from dialectic_sessions where id = any ($1))
  or exists (select from dialectic_contributions where id = any ($1))
  or exists (select from dialectic_chunks where id = any ($1))
  or exists (select from dialectic_feedback where id = any ($1))
  or exists (select from dialectic_project_resources where id = any ($1))

-- name: keep_domain
insert into dialectic_domains (tenant_id, id, name, description, is_enabled)
values ($1, $2, $3, $4, $5)
on conflict do nothing

-- name: keep_model
-- What is known here of a model is newer than what a bundle says.
insert into ai_providers (tenant_id, id, api_identifier, provider, config)
values ($1, $2, $3, $4, $5)
on conflict do nothing

-- name: insert_project
insert into dialectic_projects
  (tenant_id, id, user_id, project_name, slug, domain_id, user_domain_overlay_values,
   initial_user_prompt, status, created_at)
select tenant_id, id, user_id, project_name, slug, domain_id, user_domain_overlay_values,
  initial_user_prompt, status, created_at
from jsonb_populate_recordset(null::dialectic_projects, $1)

-- name: insert_sessions
insert into dialectic_sessions
  (tenant_id, id, project_id, user_id, process_template_id, wallet_id, session_description,
   selected_model_ids, lead_model_index, current_stage_slug, until_stage_slug, iteration_count,
   status, is_autopilot, continue_until_complete, max_output_tokens, max_retries, created_at)
select tenant_id, id, project_id, user_id, process_template_id, wallet_id, session_description,
  selected_model_ids, lead_model_index, current_stage_slug, until_stage_slug, iteration_count,
  status, is_autopilot, continue_until_complete, max_output_tokens, max_retries, created_at
from jsonb_populate_recordset(null::dialectic_sessions, $1)

-- name: insert_stage_runs
insert into dialectic_stage_runs
  (tenant_id, session_id, iteration_number, stage_slug, position, is_last, status, planned_units,
   finished_units, started_at, completed_at)
select tenant_id, session_id, iteration_number, stage_slug, position, is_last, status, planned_units,
  finished_units, started_at, completed_at
from jsonb_populate_recordset(null::dialectic_stage_runs, $1)

-- name: insert_contributions
-- All at once, for they refer to each other; their texts follow one by one.
insert into dialectic_contributions
  (tenant_id, id, session_id, user_id, model_id, model_name, model_index, stage, iteration_number,
   contribution_type, rank, origin, source_group, source_contribution_ids, target_contribution_id,
   root_contribution_id, turn_index, is_intermediate, is_incomplete, is_stale, flags, content,
   storage_path, raw_response_storage_path, mime_type, size_bytes, prompt_template_name,
   tokens_used_input, tokens_used_output, usage_source, finish_reason, raw_finish_reason,
   provider_request_id, processing_time_ms, edit_version, is_latest_edit,
   original_model_contribution_id, manifest, created_at)
select tenant_id, id, session_id, user_id, model_id, model_name, model_index, stage, iteration_number,
  contribution_type, rank, origin, source_group, source_contribution_ids, target_contribution_id,
  root_contribution_id, turn_index, is_intermediate, is_incomplete, is_stale, flags, '',
  storage_path, raw_response_storage_path, mime_type, size_bytes, prompt_template_name,
  tokens_used_input, tokens_used_output, usage_source, finish_reason, raw_finish_reason,
  provider_request_id, processing_time_ms, edit_version, is_latest_edit,
  original_model_contribution_id, manifest, created_at
from jsonb_populate_recordset(null::dialectic_contributions, $1)

-- name: insert_chunk
-- With its text, for it is never changed.
insert into dialectic_chunks
  (tenant_id, id, session_id, root_contribution_id, turn_index, stage, iteration_number, model_name,
   content, storage_path, raw_response_storage_path, mime_type, size_bytes, tokens_used_input,
   tokens_used_output, usage_source, finish_reason, raw_finish_reason, provider_request_id,
   processing_time_ms, flags, manifest, created_at)
select tenant_id, id, session_id, root_contribution_id, turn_index, stage, iteration_number, model_name,
  content, storage_path, raw_response_storage_path, mime_type, size_bytes, tokens_used_input,
  tokens_used_output, usage_source, finish_reason, raw_finish_reason, provider_request_id,
  processing_time_ms, flags, manifest, created_at
from jsonb_populate_record(null::dialectic_chunks, $1)

-- name: write_contribution_text
update dialectic_contributions set content = $2 where id = $1

-- name: insert_feedback
insert into dialectic_feedback
  (tenant_id, id, session_id, user_id, stage_slug, iteration_number, target_contribution_id,
   feedback_type, content, rating, created_at)
select tenant_id, id, session_id, user_id, stage_slug, iteration_number, target_contribution_id,
  feedback_type, content, rating, created_at
from jsonb_populate_recordset(null::dialectic_feedback, $1)

-- name: insert_resources
insert into dialectic_project_resources
  (tenant_id, id, project_id, user_id, resource_type, session_id, iteration_number, stage_slug,
   source_contribution_id, document_key, content, storage_path, mime_type, size_bytes, notes,
   created_at)
select tenant_id, id, project_id, user_id, resource_type, session_id, iteration_number, stage_slug,
  source_contribution_id, document_key, '', storage_path, mime_type, size_bytes, notes, created_at
from jsonb_populate_recordset(null::dialectic_project_resources, $1)

-- name: write_resource_text
update dialectic_project_resources set content = $2 where id = $1
