-- The text of running calls, for those who watch. Nothing else writes dialectic_drafts, except that
-- the end of an attempt removes its row.

-- name: watch
select dialectic.watch_drafts($1, $2, $3)

-- name: write
select tenant_id, job_id, chars from dialectic.write_drafts($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: read
select tenant_id, session_id, job_id, attempt, turn, phase, at, text, words
from dialectic.read_drafts($1, $2, $3, $4, $5, $6, $7, $8)

-- name: find
-- The running call of a job; without text if no worker has written any yet.
select j.id as job_id, j.session_id, j.attempt_count as attempt, coalesce(d.turn, 0) as turn, 0 as at,
  coalesce(d.text, '') as text, coalesce(d.words, 0) as words, d.phase::text as phase,
  d.first_token_at, d.updated_at
from dialectic_generation_jobs j
left join dialectic_drafts d on d.job_id = j.id and d.attempt = j.attempt_count
where j.id = $1 and j.status::text = 'processing'

-- name: sweep
select dialectic.sweep_drafts()
