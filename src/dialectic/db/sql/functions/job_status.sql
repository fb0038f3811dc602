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

-- Whether an attempt still holds its job. The status is compared as text so that the planner uses
-- the primary key, as in queries/jobs.sql.
create or replace function dialectic.is_under_way(p_tenant_id uuid, p_job_id uuid, p_attempt integer)
returns boolean
language sql stable
as $$
  select exists (
    select from dialectic.dialectic_generation_jobs j
    where j.tenant_id = p_tenant_id and j.id = p_job_id and j.attempt_count = p_attempt
      and j.status::text = 'processing')
$$;
