-- Classify a job's status: runnable, waiting for other jobs, or ended.
create or replace function dialectic.is_runnable(p_status dialectic.dialectic_job_status) returns boolean
language sql immutable parallel safe
as $$
  select p_status in ('pending', 'pending_next_step', 'pending_continuation', 'retrying')
$$;

create or replace function dialectic.is_waiting(p_status dialectic.dialectic_job_status) returns boolean
language sql immutable parallel safe
as $$
  select p_status in ('waiting_for_children', 'waiting_for_prerequisite')
$$;

create or replace function dialectic.is_ended(p_status dialectic.dialectic_job_status) returns boolean
language sql immutable parallel safe
as $$
  select p_status in ('completed', 'failed', 'retry_loop_failed', 'cancelled')
$$;
