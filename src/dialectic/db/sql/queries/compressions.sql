-- Compressed texts, and vectors of texts. Rows of the current tenant only.

-- name: find_vectors
select content_hash, pieces, vectors as data, tokens
from dialectic_text_vectors
where content_hash = any ($1) and embedder = $2 and completed_at is not null

-- name: list_known_vectors
select content_hash
from dialectic_text_vectors
where content_hash = any ($1) and embedder = $2 and completed_at is not null

-- name: claim_vectors
-- The first live attempt gets the claim; an attempt that has ended gets none.
insert into dialectic_text_vectors as v
  (tenant_id, id, session_id, content_hash, embedder, job_id, attempt)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (tenant_id, id) do update
set session_id = excluded.session_id, job_id = excluded.job_id, attempt = excluded.attempt
where v.completed_at is null
  and (v.job_id = excluded.job_id or not is_under_way(v.tenant_id, v.job_id, v.attempt))
returning v.id

-- name: save_vectors
-- Idempotent: a retry after a lost commit response saves the same again.
insert into dialectic_text_vectors as v
  (tenant_id, id, session_id, content_hash, embedder, job_id, attempt, pieces, vectors, tokens,
   cost_credits, hold_key, completed_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, dialectic.now())
on conflict (tenant_id, id) do update
set pieces = excluded.pieces, vectors = excluded.vectors, tokens = excluded.tokens,
  cost_credits = excluded.cost_credits, hold_key = excluded.hold_key,
  completed_at = excluded.completed_at
where (v.job_id, v.attempt) = (excluded.job_id, excluded.attempt)
  and (v.completed_at is null or v.hold_key = excluded.hold_key)
returning v.id

-- name: find_compression
select content as text, tokens_before, tokens_after
from dialectic_compressions
where id = $1 and completed_at is not null

-- name: list_known_compressions
-- Those of the given texts that were compressed for a purpose, to any length.
select distinct content_hash
from dialectic_compressions
where content_hash = any ($1) and purpose_hash = $2 and compressor = $3 and tokenizer = $4
  and completed_at is not null

-- name: claim_compression
insert into dialectic_compressions as c
  (tenant_id, id, session_id, content_hash, purpose_hash, compressor, tokenizer, budget_tokens,
   job_id, attempt)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (tenant_id, id) do update
set session_id = excluded.session_id, job_id = excluded.job_id, attempt = excluded.attempt
where c.completed_at is null
  and (c.job_id = excluded.job_id or not is_under_way(c.tenant_id, c.job_id, c.attempt))
returning c.id

-- name: save_compression
insert into dialectic_compressions as c
  (tenant_id, id, session_id, content_hash, purpose_hash, compressor, tokenizer, budget_tokens,
   job_id, attempt, content, tokens_before, tokens_after, cost_credits, hold_key, completed_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, dialectic.now())
on conflict (tenant_id, id) do update
set content = excluded.content, tokens_before = excluded.tokens_before,
  tokens_after = excluded.tokens_after, cost_credits = excluded.cost_credits,
  hold_key = excluded.hold_key, completed_at = excluded.completed_at
where (c.job_id, c.attempt) = (excluded.job_id, excluded.attempt)
  and (c.completed_at is null or c.hold_key = excluded.hold_key)
returning c.id
