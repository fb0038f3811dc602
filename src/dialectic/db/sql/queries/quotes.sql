-- Lengths of existing texts, for estimating future ones. The length is that of the bytes, which is
-- known without reading the text.

-- name: list_written
-- Every text of a session, including drafts and older versions: each was paid for.
select c.iteration_number, c.stage, c.contribution_type, c.model_name, c.model_index, c.rank,
  c.is_latest_edit, 1 as documents,
  c.tokens_used_input as input_tokens, c.tokens_used_output as output_tokens,
  octet_length(c.content) as text_bytes, c.processing_time_ms as elapsed_ms
from dialectic_contributions c
where c.session_id = $1

-- name: sum_earlier
-- The output of models in the newest sessions of a process except one, by type. Truncated responses
-- are skipped: their full length is unknown.
select c.stage, c.contribution_type, c.model_name, count(*) as documents,
  sum(c.tokens_used_output)::bigint as output_tokens,
  sum(octet_length(c.content))::bigint as text_bytes,
  sum(c.processing_time_ms)::bigint as elapsed_ms
from dialectic_contributions c
where c.session_id in (
    select s.id
    from dialectic_sessions s
    join dialectic_process_templates t
      on t.tenant_id = s.tenant_id and t.id = s.process_template_id
    where t.name = $1 and s.id is distinct from $2
    order by s.created_at desc
    limit $3
  )
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
