-- What was compared, and what was found. Rows of the current tenant only.

-- name: find_contribution
select id, session_id, iteration_number
from dialectic_contributions
where id = $1

-- name: list_versions
-- All versions of an iteration's documents, without their texts.
select c.id, coalesce(c.original_model_contribution_id, c.id) as first_id, c.edit_version as version,
  c.is_latest_edit, c.user_id is not null as is_by_user, c.job_id, c.model_name, c.model_index,
  c.stage, c.contribution_type, c.rank, c.origin, c.source_group, c.source_contribution_ids,
  c.read_version_ids, c.is_intermediate, c.storage_path
from dialectic_contributions c
where c.session_id = $1 and c.iteration_number = $2
order by c.id

-- name: read_contents
select id, content
from dialectic_contributions
where id = any ($1)

-- name: find_report
select report::text
from dialectic_provenance
where contribution_id = $1 and kind = $2 and method = $3 and inputs_sha256 = $4

-- name: forget_reports
delete from dialectic_provenance
where contribution_id = $1 and kind = $2 and (method, inputs_sha256) <> ($3, $4)

-- name: save_report
insert into dialectic_provenance
  (tenant_id, contribution_id, kind, method, inputs_sha256, report)
values (current_tenant(), $1, $2, $3, $4, $5::text::jsonb)
on conflict do nothing

-- name: list_conditions
-- How documents were written: whole, and from whole texts.
select id, is_incomplete, is_stale,
  coalesce((manifest ->> 'tokens_before')::bigint, 0) as tokens_before,
  coalesce((manifest ->> 'tokens_after')::bigint, 0) as tokens_after
from dialectic_contributions
where id = any ($1)

-- name: list_seat_costs
-- What the calls of each seat were charged in an iteration.
select (j.payload ->> 'model_index')::integer as seat,
  count(*) filter (where h.state = 'posted') as calls,
  coalesce(sum(h.charged_credits) filter (where not h.is_play), 0)::bigint as charged_credits,
  coalesce(sum(h.charged_credits) filter (where h.is_play), 0)::bigint as charged_play_credits
from token_wallet_holds h
join dialectic_generation_jobs j on j.tenant_id = h.tenant_id and j.id = h.job_id
where h.session_id = $1 and j.iteration_number = $2 and j.payload ->> 'model_index' is not null
group by seat
order by seat

-- name: list_seat_times
-- How long the documents of each seat took.
select model_index as seat, sum(processing_time_ms)::bigint as elapsed_ms
from dialectic_contributions
where session_id = $1 and iteration_number = $2 and user_id is null and model_index is not null
  and processing_time_ms is not null
group by model_index
order by model_index

-- name: list_sessions_since
-- The newest sessions, and how many there are in all.
select id, count(*) over () as total
from dialectic_sessions
where $1::date is null or created_at >= $1::date
order by created_at desc, id
limit $2
