-- Prerequisites: a job waits for another, never in a cycle and never for one that has ended.

-- Reject a cycle: the prerequisite must not wait, through its own prerequisites or children, for
-- this job or one of its ancestors.
create or replace function dialectic.refuse_prerequisite_cycle(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (
    with recursive
    waiting (id) as (
      select own.id from unnest(array[p_job.id, p_job.parent_job_id]) as own (id)
      union
      select j.parent_job_id
      from waiting w
      join dialectic.dialectic_generation_jobs j on j.tenant_id = p_job.tenant_id and j.id = w.id
    ),
    needed (id) as (
      select p_job.prerequisite_job_id
      union
      select case when j.id = n.id then j.prerequisite_job_id else j.id end
      from needed n
      join dialectic.dialectic_generation_jobs j
        on j.tenant_id = p_job.tenant_id and (j.id = n.id or j.parent_job_id = n.id)
    )
    select from waiting join needed using (id)
  ) then
    raise exception 'job % would wait for itself through its prerequisite %',
      p_job.id, p_job.prerequisite_job_id
        using errcode = 'DJ003', constraint = 'job_waits_for_itself';
  end if;
end
$$;

-- Decide the status of a job that is about to wait for another.
create or replace function dialectic.look_at_prerequisite(p_job dialectic.dialectic_generation_jobs)
returns dialectic.dialectic_generation_jobs
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  p_job.status := dialectic.status_after_prerequisite(p_job);
  if p_job.status = 'pending' then
    p_job.status_reason := null;
  elsif p_job.status = 'failed' then
    p_job.status_reason := 'prerequisite_failed';
    p_job.error_details := p_job.error_details || dialectic.error_entry(
      p_job.attempt_count, 'prerequisite_failed',
      format('The job it was to wait for, %s, had ended and not completed.', p_job.prerequisite_job_id));
  end if;
  return p_job;
end
$$;

-- Lock the prerequisite first: if it ends concurrently, either it sees the new waiter or the waiter
-- sees its end.
create or replace function dialectic.status_after_prerequisite(p_job dialectic.dialectic_generation_jobs)
returns dialectic.dialectic_job_status
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_status dialectic.dialectic_job_status;
begin
  perform dialectic.refuse_prerequisite_cycle(p_job);
  select j.status into v_status
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_job.tenant_id and j.id = p_job.prerequisite_job_id
  for no key update;
  return case
    when v_status is null or v_status = 'completed' then 'pending'
    when dialectic.is_ended(v_status) then 'failed'
    else 'waiting_for_prerequisite'
  end;
end
$$;

-- Rerun a cancelled job that another job needs, with its children that did not complete. A failed
-- job reruns only for a document that a user requested after the failure: for other waiters it
-- would only fail again.
-- Lock the job before reading it: its last waiter may end concurrently, and the canceller skips
-- locked rows.
create or replace function dialectic.rerun_needed(p_job_id uuid, p_reader_id uuid) returns void
language plpgsql
as $$
begin
  perform from dialectic.dialectic_generation_jobs j
  where j.tenant_id = dialectic.current_tenant() and j.id = p_job_id
  for no key update;
  update dialectic.dialectic_generation_jobs j
  set status = 'pending', status_reason = null, retry_count = 0, lost_count = 0,
      run_at = dialectic.now()
  where j.tenant_id = dialectic.current_tenant() and (j.id = p_job_id or j.parent_job_id = p_job_id)
    and j.status in ('failed', 'retry_loop_failed', 'cancelled')
    and exists (
      select from dialectic.dialectic_generation_jobs own
      join dialectic.dialectic_generation_jobs reader
        on reader.tenant_id = own.tenant_id and reader.id = p_reader_id
      where own.tenant_id = dialectic.current_tenant() and own.id = p_job_id and (
        own.status = 'cancelled'
        or own.status in ('failed', 'retry_loop_failed')
          and reader.payload ->> 'replaces' is not null and reader.created_at > own.completed_at
      )
    );
end
$$;
