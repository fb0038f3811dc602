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

-- name: list_sessions
select s.id, s.project_id, p.project_name, s.phase, s.current_stage_slug, s.iteration_count,
  s.until_stage_slug, s.created_at, cardinality(s.selected_model_ids) - cardinality(s.dropped_seats) as model_count
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
where ($1::timestamptz is null or (s.created_at, s.id) < ($1, $2::uuid))
  and ($4::uuid is null or s.project_id = $4)
  and ($5::boolean is null or (p.status = 'archived') = $5)
order by s.created_at desc, s.id desc
limit $3

-- name: list_contributions
-- The latest version of each contribution, in the order of creation.
select c.id, c.session_id, c.job_id, c.model_name, c.model_index, c.stage, c.iteration_number,
  c.contribution_type, c.target_contribution_id, c.source_contribution_ids, c.source_group,
  c.storage_path, c.is_incomplete, c.is_intermediate, c.is_stale, c.flags, c.edit_version,
  c.size_bytes, c.tokens_used_input, c.tokens_used_output, c.finish_reason, c.created_at,
  list_read_versions(c.tenant_id, c.source_contribution_ids, c.read_version_ids) as read_versions
from dialectic_contributions c
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
-- The roles of stages: the other prompts of a process are templates with variables.
select p.id, p.name, p.prompt_text, p.created_at,
  array(
    select distinct t.name from dialectic_stages s
    join dialectic_process_templates t
      on t.tenant_id = s.tenant_id and t.id = s.process_template_id
    where s.tenant_id = p.tenant_id and s.default_system_prompt_id = p.id
    order by t.name
  ) as processes
from system_prompts p
where ($1::timestamptz is null or (p.created_at, p.id) < ($1, $2::uuid))
  and exists (
    select from dialectic_stages s
    where s.tenant_id = p.tenant_id and s.default_system_prompt_id = p.id
  )
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

-- name: load_document
select r.id, r.project_id, r.session_id, r.resource_type, r.document_key, r.stage_slug,
  r.iteration_number, r.storage_path, r.mime_type, r.size_bytes, r.source_contribution_id,
  r.created_at, r.content
from dialectic_project_resources r
where r.id = $1

-- name: list_versions
select c.id, c.edit_version, c.is_latest_edit, c.user_id is not null as is_by_user, c.created_at
from dialectic_contributions c
where c.id = $1 or c.original_model_contribution_id = $1
order by c.edit_version
