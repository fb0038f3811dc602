-- Statements of db/tables/board.py: what a session page shows, in few statements of one snapshot.
-- A null list of ids ($3) means all rows of the iteration.

-- name: read_cursor
-- Where a stream continues after this snapshot: events with a number are in it, and so are the
-- changes of every transaction that it sees.
select coalesce((select c.last_seq from notification_counters c), 0) as seq,
  pg_current_snapshot()::text as seen, dialectic.now() as read_at

-- name: load_board_session
-- What a board shows of a session beyond its record.
select s.phase_before_pause::text, left(p.initial_user_prompt, 4000) as prompt, t.title as process_title,
  coalesce(g.held_credits, 0) as held_credits, coalesce(g.play_held_credits, 0) as play_held_credits,
  w.balance_credits - w.held_credits as available_credits,
  w.play_balance_credits - w.play_held_credits as play_available_credits,
  array(
    select m.to_phase::text from dialectic_session_moves m
    where m.from_phase = coalesce(s.phase_before_pause, s.phase)
  ) as moves,
  exists (
    select from dialectic_generation_jobs j
    where j.tenant_id = s.tenant_id and j.session_id = s.id and not is_ended(j.status)
  ) as has_open_jobs,
  exists (
    select from dialectic_generation_jobs j
    where j.tenant_id = s.tenant_id and j.session_id = s.id and j.status = 'paused'
  ) as has_paused_jobs
from dialectic_sessions s
join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
join dialectic_process_templates t on t.tenant_id = s.tenant_id and t.id = s.process_template_id
join token_wallets w on w.tenant_id = s.tenant_id and w.id = s.wallet_id
left join dialectic_session_spending g on g.tenant_id = s.tenant_id and g.session_id = s.id
where s.id = $1

-- name: list_board_stages
select stage_slug, iteration_number, status, planned_units, finished_units, step_units, seats,
  lost_seats, started_at, completed_at
from dialectic_stage_runs
where session_id = $1 and iteration_number = $2
order by position

-- name: list_board_jobs
-- Errors without the providers' responses, which are long and only for audits.
select j.id, j.job_type, j.stage_slug, j.payload ->> 'step_name' as step_name, j.output_type,
  j.iteration_number, (j.payload ->> 'model_index')::integer as seat,
  coalesce((j.payload ->> 'rank')::integer, (j.payload ->> 'ordinal')::integer) as rank,
  j.status::text, j.status_reason, j.target_contribution_id as about_id,
  case when j.results ? 'read' then j.results -> 'read' else j.payload -> 'inputs' end as inputs,
  (select c.id from dialectic_contributions c
    where c.tenant_id = j.tenant_id and c.job_id = j.id) as document_id,
  array_remove(array[j.prerequisite_job_id], null) as waits_for,
  (select count(*) from dialectic_chunks k
    where k.tenant_id = j.tenant_id and k.job_id = j.id)::integer as turn,
  j.attempt_count, j.retry_count, j.reason_figures,
  -- A call that waits for money is woken when some is free; its time is only the last resort.
  case when is_runnable(j.status) and j.awaited_credits is null then j.run_at end as run_at,
  (select coalesce(jsonb_agg(e.entry - 'raw' order by e.nth), '[]')
    from jsonb_array_elements(j.error_details) with ordinality e (entry, nth)) as error_details,
  j.status = 'processing' and exists (select from token_wallet_holds h
    where h.tenant_id = j.tenant_id and h.session_id = j.session_id and h.job_id = j.id
      and h.state = 'pending' and h.purpose in ('call', 'look')) as is_calling,
  j.created_at, j.started_at, j.completed_at
from dialectic_generation_jobs j
where j.session_id = $1 and j.iteration_number = $2 and ($3::uuid[] is null or j.id = any ($3))
order by j.created_at, j.id

-- name: list_board_documents
-- The newest version of each document; $3 are ids of any of its versions. The labels under which
-- it read others are those of the job that wrote the first version.
select c.id, coalesce(c.original_model_contribution_id, c.id) as original_id, c.job_id,
  c.model_index as seat, c.model_name, c.stage, c.iteration_number, c.contribution_type,
  j.payload ->> 'step_name' as step_name, c.rank, c.edit_version, v.versions,
  c.user_id as by_user_id, u.name as by_user_name,
  c.target_contribution_id as about_id, c.source_contribution_ids as source_ids,
  c.source_group as origin_id, j.results -> 'read' as read, c.title, c.excerpt, c.words,
  c.size_bytes, c.tokens_used_input, c.tokens_used_output, c.processing_time_ms, c.finish_reason,
  c.is_intermediate, c.is_incomplete, c.is_stale, c.flags, c.created_at,
  (c.manifest ->> 'tokens_before')::integer as tokens_before,
  (c.manifest ->> 'tokens_after')::integer as tokens_after,
  (select count(*) from jsonb_array_elements(c.manifest -> 'items') i
    where i ->> 'status' = 'compressed')::integer as shortened_items,
  r.parts
from dialectic_contributions c
left join dialectic_contributions f
  on f.tenant_id = c.tenant_id and f.id = coalesce(c.original_model_contribution_id, c.id)
left join dialectic_generation_jobs j
  on j.tenant_id = c.tenant_id and j.id = coalesce(c.job_id, f.job_id)
left join users u on u.id = c.user_id
left join lateral (
  select max(o.edit_version) as versions
  from dialectic_contributions o
  where o.tenant_id = c.tenant_id
    and (o.id = f.id or o.original_model_contribution_id = f.id)
) v on true
left join lateral (
  select jsonb_agg(jsonb_build_object('key', d.document_key, 'id', d.id) order by d.document_key)
    as parts
  from dialectic_project_resources d
  where d.tenant_id = c.tenant_id and d.source_contribution_id = c.id
    and d.document_key is not null and d.resource_type <> 'work_item'
) r on true
where c.session_id = $1 and c.iteration_number = $2 and c.is_latest_edit
  and ($3::uuid[] is null or c.id = any ($3) or c.original_model_contribution_id = any ($3)
    or coalesce(c.original_model_contribution_id, c.id) in (
      select o.original_model_contribution_id from dialectic_contributions o where o.id = any ($3)))
order by c.created_at, c.id

-- name: list_board_feedback
select f.id, f.session_id, f.stage_slug, f.iteration_number, f.feedback_type,
  f.target_contribution_id as document_id, f.content as text, f.rating, f.user_id as by_user_id,
  u.name as by_user_name, f.created_at, f.subject_id, f.subject, f.position_id, f.verdict, f.withdrawn_at
from dialectic_feedback f
left join users u on u.id = f.user_id
where f.session_id = $1 and f.iteration_number = $2 and ($3::uuid[] is null or f.id = any ($3))
order by f.created_at, f.id

-- name: list_board_charges
-- What the calls of each job were charged, also those of other iterations; $2 are the jobs, or null.
select h.job_id, h.stage_slug, (j.payload ->> 'model_index')::integer as seat, h.is_play,
  sum(h.charged_credits)::bigint as charged_credits
from token_wallet_holds h
left join dialectic_generation_jobs j on j.tenant_id = h.tenant_id and j.id = h.job_id
where h.session_id = $1 and h.charged_credits > 0 and ($2::uuid[] is null or h.job_id = any ($2))
group by h.job_id, h.stage_slug, seat, h.is_play

-- name: list_board_plan
-- The files of the agreed plan as they were written: a person may have changed or moved them.
select r.storage_path as path, r.source_contribution_id as document_id,
  substring(r.content from '(?n)^#+ +(.+)$') as heading,
  regexp_count(r.content, '(?n)^- \[[ x]\] ') as steps
from dialectic_project_resources r
where r.session_id = $1 and r.iteration_number = $2 and r.resource_type = 'work_item'
order by r.storage_path

-- name: list_board_running
select d.job_id, d.phase, d.words, d.first_token_at
from dialectic_drafts d
where d.session_id = $1
