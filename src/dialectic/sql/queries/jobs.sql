-- Every statement that moves a job. Nothing else in the program writes dialectic_generation_jobs.
-- The fenced ones end an attempt: they carry its token and touch no row when the lease was lost.

-- name: insert_job
-- The id is derived from the work: inserting the same work again does nothing.
insert into dialectic_generation_jobs
  (tenant_id, id, session_id, parent_job_id, prerequisite_job_id, target_contribution_id,
   stage_slug, iteration_number, payload, status, step_number, total_steps, max_retries, priority)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::dialectic_job_status, $11, $12, $13, $14)
on conflict (tenant_id, id) do nothing
returning id

-- name: claim
select *, dialectic.now() as claimed_at from dialectic.claim_jobs($1, $2, $3, $4, $5, $6)

-- name: extend_leases
select * from dialectic.extend_leases($1, $2, $3, $4)

-- name: sweep
select dialectic.sweep_jobs($1, $2)

-- name: hold_lease
-- First statement of every transaction that ends an attempt: whoever gets the row owns the outcome.
select id from dialectic_generation_jobs
where id = $1 and attempt_count = $2 and status = 'processing'
for no key update

-- name: complete
update dialectic_generation_jobs
set status = 'completed', results = $3, finished_units = $4
where id = $1 and attempt_count = $2 and status = 'processing'
returning id

-- name: wait_for_children
update dialectic_generation_jobs
set status = 'waiting_for_children', total_steps = $3, on_child_failure = $4, quorum_min = $5
where id = $1 and attempt_count = $2 and status = 'processing'
returning id

-- name: retry
update dialectic_generation_jobs
set status = 'retrying', status_reason = $3,
    retry_count = retry_count + $6::integer,
    run_at = dialectic.now() + $5::interval,
    error_details = error_details || error_entry(attempt_count, $3, $4)
where id = $1 and attempt_count = $2 and status = 'processing'
returning id

-- name: fail
update dialectic_generation_jobs
set status = $5::text::dialectic_job_status, status_reason = $3,
    error_details = error_details || error_entry(attempt_count, $3, $4)
where id = $1 and attempt_count = $2 and status = 'processing'
returning id

-- name: pause
update dialectic_generation_jobs
set status = 'paused', status_reason = $3,
    error_details = error_details || error_entry(attempt_count, $3, $4)
where id = $1 and attempt_count = $2 and status = 'processing'
returning id

-- name: release
-- A worker that is told to stop gives the job back: the next one need not wait for the lease.
update dialectic_generation_jobs
set status = 'pending', run_at = dialectic.now()
where id = $1 and attempt_count = $2 and status = 'processing'
returning id

-- name: pause_session
-- What runs may finish its turn; what it starts is paused when someone wants to claim it.
update dialectic_generation_jobs
set status = 'paused', status_reason = 'session paused'
where session_id = $1 and is_runnable(status)

-- name: resume_session
update dialectic_generation_jobs
set status = 'pending', status_reason = null, run_at = dialectic.now()
where session_id = $1 and status = 'paused'

-- name: cancel_session
-- A job that runs is taken from its worker: the worker's next heartbeat tells it, and it hangs up.
update dialectic_generation_jobs
set status = 'cancelled', status_reason = 'session cancelled'
where session_id = $1 and not is_ended(status)

-- name: list_of_session
select id, parent_job_id, job_type, stage_slug, iteration_number, status, status_reason,
  payload ->> 'model_name' as model_name, attempt_count, retry_count, error_details,
  created_at, started_at, completed_at
from dialectic_generation_jobs
where session_id = $1
order by iteration_number, created_at, id
