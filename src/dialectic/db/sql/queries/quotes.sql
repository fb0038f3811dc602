-- Lengths of existing texts, for estimating future ones. The length is that of the bytes, which is
-- known without reading the text.

-- name: list_written
-- Every text of a session, including drafts and older versions: each was paid for.
select c.iteration_number, c.stage, c.contribution_type, c.model_name, c.model_index, c.rank,
  c.is_latest_edit, 1 as documents, c.tokens_used_output as long_tokens,
  c.tokens_used_input as input_tokens, c.tokens_used_output as output_tokens,
  octet_length(c.content) as text_bytes, c.processing_time_ms as elapsed_ms
from dialectic_contributions c
where c.session_id = $1

-- name: sum_earlier
-- The output of models in the newest sessions of a process, by type: with a session ($2), what
-- existed when that was created. Truncated responses are skipped: their full length is unknown.
with own as (
  select coalesce((select s.created_at from dialectic_sessions s where s.id = $2), 'infinity')
    as created_at
), earlier as (
  select s.id
  from dialectic_sessions s
  join dialectic_process_templates t
    on t.tenant_id = s.tenant_id and t.id = s.process_template_id
  cross join own
  where t.name = $1 and s.id is distinct from $2 and s.created_at <= own.created_at
  order by s.created_at desc
  limit $3
)
select c.stage, c.contribution_type, c.model_name, count(*) as documents,
  sum(c.tokens_used_output)::bigint as output_tokens,
  sum(octet_length(c.content))::bigint as text_bytes,
  sum(c.processing_time_ms)::bigint as elapsed_ms,
  percentile_disc(0.95) within group (order by c.tokens_used_output)::bigint as long_tokens
from dialectic_contributions c
cross join own
where c.session_id in (select id from earlier)
  and c.created_at < own.created_at
  and c.job_id is not null and not c.is_incomplete
  and c.tokens_used_output > 0
group by c.stage, c.contribution_type, c.model_name
order by c.stage, c.contribution_type, c.model_name

-- name: count_paid_calls
-- The paid calls of the same sessions, and the documents that they wrote: what there is more of the
-- former are further turns and failed attempts.
with newest as (
  select s.id
  from dialectic_sessions s
  join dialectic_process_templates t
    on t.tenant_id = s.tenant_id and t.id = s.process_template_id
  where t.name = $1 and s.id is distinct from $2
  order by s.created_at desc
  limit $3
)
select
  (select count(*) from token_wallet_holds h
    where h.session_id in (select id from newest)
      and h.purpose = 'call' and h.state in ('posted', 'lost')) as calls,
  (select count(*) from dialectic_contributions c
    where c.session_id in (select id from newest) and c.job_id is not null) as documents

-- name: list_given
-- The texts that a person gave to a project, in the order of prompts; $2 are their types.
select r.resource_type as kind, r.content as text
from dialectic_project_resources r
where r.project_id = $1 and r.session_id is null and r.resource_type = any ($2)
order by r.resource_type, r.storage_path

-- name: read_clock
select now()
