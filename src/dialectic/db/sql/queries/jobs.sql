-- Every statement that moves a job. Nothing else in the program writes dialectic_generation_jobs.
-- Fenced statements end an attempt: they compare its token and change no row if the lease was lost.
-- They compare the status as text so that the planner uses the primary key: it underestimates the
-- partial index of live jobs as soon as there are many.

-- name: insert_job
-- The id is derived from the work: inserting the same work again does nothing.
insert into dialectic_generation_jobs
  (tenant_id, id, session_id, parent_job_id, prerequisite_job_id, target_contribution_id,
   stage_slug, iteration_number, payload, status, status_reason, step_number, total_steps,
   max_retries, priority, awaits)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::dialectic_job_status, $11, $12, $13, $14, $15,
  $16)
on conflict (tenant_id, id) do nothing
returning id

-- name: claim
select tenant_id, id, session_id, stage_slug, iteration_number, attempt_count as attempt, retry_count,
  max_retries, current_step, payload as payload_json, is_spend_approved,
  coalesce(extract(epoch from dialectic.now() - throttled_since), 0)::double precision as throttled_s,
  array(
    select e.entry ->> 'code' from jsonb_array_elements(error_details) with ordinality e (entry, nth)
    order by e.nth
  ) as error_codes
from dialectic.claim_jobs($1, $2, $3, $4, $5, $6, $7)

-- name: turn_away
select dialectic.turn_away_jobs($1, $2, $3, $4)

-- name: extend_leases
select * from dialectic.extend_leases($1, $2, $3, $4)

-- name: list_taken
select * from dialectic.list_taken($1, $2, $3)

-- name: sweep
select dialectic.sweep_jobs($1, $2)

-- name: find_due
select dialectic.find_due($1) as due_in

-- name: take_messages
select job_id, lane from dialectic.take_messages($1, $2, $3, $4, $5)

-- name: find_session_due
select dialectic.find_session_due($1, $2, $3) as due_in

-- name: list_lanes
select * from dialectic.list_lanes()

-- name: hold_lease
select dialectic.hold_lease($1, $2, $3)

-- name: hold_plan
select dialectic.hold_plan($1, $2, $3)

-- name: complete
update dialectic_generation_jobs
set status = 'completed', results = $3, finished_units = $4
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: go_on
-- A turn is saved and another is due; reset the retries.
update dialectic_generation_jobs
set status = 'pending_continuation', status_reason = null, run_at = dialectic.now(),
    retry_count = 0, lost_count = 0
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: wait
-- A plan job waits for its children, or for the inputs of a step without children yet.
update dialectic_generation_jobs
set status = $3::text::dialectic_job_status, status_reason = $4, total_steps = $5,
    on_child_failure = $6, quorum_min = $7, awaits = $8, is_step_open = $9
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: wait_for
-- A job waits for another, unless that has completed already; the job guard checks.
update dialectic_generation_jobs
set status = 'waiting_for_prerequisite', status_reason = $4, prerequisite_job_id = $3,
    run_at = dialectic.now()
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: find_incomplete
select j.id
from dialectic_generation_jobs j
where j.id = any($1::uuid[]) and j.status <> 'completed'
order by array_position($1::uuid[], j.id)
limit 1

-- name: retry
update dialectic_generation_jobs
set status = 'retrying', status_reason = $3,
    retry_count = retry_count + $6::integer,
    throttled_since = case when $6 = 0 then coalesce(throttled_since, dialectic.now()) end,
    run_at = dialectic.now() + $5::interval,
    error_details = error_details || error_entry(attempt_count, $3, $4, $7)
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: postpone
-- The endpoint accepts no calls yet. This is not an error and uses up no retry. If the endpoint is
-- in trouble, the waiting time counts as throttled time.
update dialectic_generation_jobs
set status = 'retrying', status_reason = $3, run_at = dialectic.now() + $4::interval,
    throttled_since = coalesce(throttled_since, case when $5 then dialectic.now() end)
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: await_funds
-- Other calls hold the money that this one needs; what releases money wakes it (wake_funded). The
-- time is for the case that nothing does.
update dialectic_generation_jobs
set status = 'retrying', status_reason = $3, run_at = dialectic.now() + $4::interval,
    awaited_credits = $5, awaits_play_money = $6, reason_figures = $7
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: fail
update dialectic_generation_jobs
set status = $5::text::dialectic_job_status, status_reason = $3,
    error_details = error_details || error_entry(attempt_count, $3, $4, $6, $7)
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: pause
update dialectic_generation_jobs
set status = 'paused', status_reason = $3,
    error_details = error_details || error_entry(attempt_count, $3, $4, $5, $6, $7)
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: release
-- A worker that shuts down releases the job: the next worker need not wait for the lease.
update dialectic_generation_jobs
set status = 'pending', run_at = dialectic.now()
where id = $1 and attempt_count = $2 and status::text = 'processing'
returning id

-- name: pause_session
-- Running jobs may finish their turn; new jobs are paused when a worker tries to claim them.
update dialectic_generation_jobs
set status = 'paused', status_reason = 'session paused'
where session_id = $1 and is_runnable(status)

-- name: resume_session
-- $2 approves the calls that wait for approval; without it they ask again. $3 is a stage, or all.
update dialectic_generation_jobs
set status = 'pending', run_at = dialectic.now(), status_reason = null,
    is_spend_approved = is_spend_approved or ($2 and status_reason = 'spend_needs_approval')
where session_id = $1 and status = 'paused' and stage_slug = coalesce($3, stage_slug)

-- name: resume_funded
-- Resume the jobs that wait for money in a wallet.
update dialectic_generation_jobs j
set status = 'pending', status_reason = null, run_at = dialectic.now()
from dialectic_sessions s
where s.tenant_id = j.tenant_id and s.id = j.session_id and s.wallet_id = $1
  and s.phase <> 'paused'
  and j.status = 'paused' and j.status_reason in ('insufficient_funds', 'spend_needs_approval')
returning j.session_id

-- name: cancel_session
-- A running job is taken from its worker: the worker's next heartbeat finds that and ends the call.
update dialectic_generation_jobs
set status = 'cancelled', status_reason = 'session cancelled'
where session_id = $1 and not is_ended(status)

-- name: pause_job
-- As for a session, for one job.
update dialectic_generation_jobs
set status = 'paused', status_reason = 'job paused'
where session_id = $1 and id = $2 and is_runnable(status)
returning id

-- name: resume_job
update dialectic_generation_jobs j
set status = 'pending', run_at = dialectic.now(), status_reason = null,
    is_spend_approved = j.is_spend_approved or ($3 and j.status_reason = 'spend_needs_approval')
where j.session_id = $1 and j.id = $2 and j.status = 'paused' and exists (
  select from dialectic_sessions s
  where s.id = j.session_id and s.phase not in ('paused', 'cancelled'))
returning j.id

-- name: cancel_job
update dialectic_generation_jobs
set status = 'cancelled', status_reason = 'job cancelled'
where session_id = $1 and id = $2 and not is_ended(status)
returning id

-- name: list_children
select step_number, (payload ->> 'rank')::integer as rank, status::text
from dialectic_generation_jobs
where parent_job_id = $1

-- name: load_job
select id, session_id, stage_slug, iteration_number, parent_job_id, step_number, current_step,
  on_child_failure, quorum_min, payload, status, status_reason, max_retries, results
from dialectic_generation_jobs
where id = $1

-- name: rerun_job
-- Rerun an ended job for a job that needs it ($2), if that is allowed; the row stays locked until
-- $2 waits for it.
select rerun_needed($1, $2)

-- name: rerun_failed
-- Rerun the failed jobs and those that ended with them, except those of seats that left ($3).
-- Saved results stay.
update dialectic_generation_jobs
set status = 'pending', status_reason = null, retry_count = 0, lost_count = 0,
    run_at = dialectic.now()
where session_id = $1 and iteration_number = $2
  and status in ('failed', 'retry_loop_failed', 'cancelled')
  and not (job_type in ('plan', 'execute') and (payload ->> 'model_index')::integer = any ($3))
returning stage_slug

-- name: list_rerun
-- The jobs that run again with one that has ended ($2): those that ended with it or because of it,
-- and those that the job above it cannot do without.
with recursive again (id) as (
  select j.id from dialectic_generation_jobs j where j.session_id = $1 and j.id = $2
  union
  select x.id
  from again a
  join dialectic_generation_jobs j on j.id = a.id
  join dialectic_generation_jobs x
    on x.session_id = j.session_id and x.status in ('failed', 'retry_loop_failed', 'cancelled')
    and (
      x.id in (j.parent_job_id, j.prerequisite_job_id)
      or x.prerequisite_job_id = j.id and x.status_reason = 'prerequisite_failed'
      or x.parent_job_id = j.id and x.step_number = j.current_step and (
        j.on_child_failure = 'all'
        or x.status = 'cancelled' and x.status_reason is distinct from 'job cancelled')
      or x.iteration_number = j.iteration_number
        and x.parent_job_id is null and j.parent_job_id is null
        and j.job_type = 'plan' and j.payload ->> 'replaces' is null and (
          x.status_reason in (
            format('stage %s failed', j.stage_slug), format('stage %s cancelled', j.stage_slug))
          or x.status_reason = 'seat left'
            and x.payload ->> 'model_index' = j.payload ->> 'model_index')
    )
)
select j.id, j.job_type, j.stage_slug as stage, j.iteration_number, j.status,
  j.output_type as contribution_type, (j.payload ->> 'model_index')::integer as model_index,
  coalesce((j.payload ->> 'rank')::integer, 1) as rank
from again a join dialectic_generation_jobs j on j.id = a.id

-- name: list_failed
-- What `rerun_failed` would run again.
select j.id, j.job_type, j.stage_slug as stage, j.iteration_number, j.status,
  j.output_type as contribution_type, (j.payload ->> 'model_index')::integer as model_index,
  coalesce((j.payload ->> 'rank')::integer, 1) as rank
from dialectic_generation_jobs j
where j.session_id = $1 and j.iteration_number = $2
  and j.status in ('failed', 'retry_loop_failed', 'cancelled')

-- name: rerun_jobs
update dialectic_generation_jobs
set status = 'pending', status_reason = null, retry_count = 0, lost_count = 0,
    run_at = dialectic.now()
where session_id = $1 and id = any ($2) and status in ('failed', 'retry_loop_failed', 'cancelled')
returning stage_slug

-- name: take_back
-- Its worker finds that it has lost the lease, and aborts the call.
update dialectic_generation_jobs
set status = 'pending', status_reason = null, retry_count = 0, lost_count = 0,
    run_at = dialectic.now()
where session_id = $1 and id = $2 and status = 'processing'
  and job_type in ('plan', 'execute') and payload ->> 'replaces' is null
returning (payload ->> 'model_index')::integer

-- name: count_siblings
-- The jobs of a step, next to one of them ($2), of the job above it, which is locked.
with parent as (
  select p.id, p.current_step from dialectic_generation_jobs p where p.id = $1 for no key update
)
select count(*) from parent p
join dialectic_generation_jobs j on j.parent_job_id = p.id and j.step_number = p.current_step
where j.id <> $2 and (not dialectic.is_ended(j.status) or j.status = 'completed')

-- name: reseat
-- Give the jobs of a seat ($3) another model, if they have not run to their end.
update dialectic_generation_jobs
set payload = payload || $4::jsonb
where session_id = $1 and iteration_number = $2 and (payload ->> 'model_index')::integer = $3
  and job_type in ('plan', 'execute') and payload ->> 'replaces' is null
  and status not in ('processing', 'completed')

-- name: rerun_seat
-- Rerun what a seat ($3) has not completed in some stages.
update dialectic_generation_jobs
set status = 'pending', status_reason = null, retry_count = 0, lost_count = 0,
    run_at = dialectic.now()
where session_id = $1 and iteration_number = $2 and (payload ->> 'model_index')::integer = $3
  and job_type in ('plan', 'execute') and payload ->> 'replaces' is null
  and status in ('failed', 'retry_loop_failed', 'cancelled') and stage_slug = any ($4)
returning stage_slug
