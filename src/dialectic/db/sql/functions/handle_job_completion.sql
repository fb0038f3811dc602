-- A job has ended: update every job that waited for it, once.
-- Locks are taken in one order in every transaction: the session's lock (session_lock.sql), job, plan
-- jobs by id, stage, session.
create or replace function dialectic.handle_job_completion(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_is_told boolean;
begin
  -- Thousands of jobs may end at once when their session is cancelled. So do all jobs that could
  -- wait for them, so only the stage has to end.
  if p_job.status = 'cancelled' and p_job.status_reason = 'session cancelled' then
    if p_job.parent_job_id is null then
      perform dialectic.settle_stage(
        p_job.tenant_id, p_job.session_id, p_job.iteration_number, p_job.stage_slug);
    end if;
    return;
  end if;
  -- Likewise if the parent ended: its own end has updated every other waiter.
  v_is_told := p_job.status = 'cancelled' and exists (
    select from dialectic.dialectic_generation_jobs p
    where p.tenant_id = p_job.tenant_id and p.id = p_job.parent_job_id
      and dialectic.is_ended(p.status));
  if not v_is_told then
    perform dialectic.lock_planners(p_job);
  end if;
  perform dialectic.tell_failure(p_job);
  perform dialectic.lose_seat(p_job);
  if p_job.status = 'completed' then
    perform dialectic.count_finished_units(p_job);
  else
    -- Cancel children whose output is not needed. A running one may finish: it is paid for.
    update dialectic.dialectic_generation_jobs j
    set status = 'cancelled', status_reason = format('parent ended as %s', p_job.status)
    where j.tenant_id = p_job.tenant_id and j.parent_job_id = p_job.id
      and not dialectic.is_ended(j.status) and j.status <> 'processing';
  end if;
  perform dialectic.tell_waiters(p_job);
  perform dialectic.drop_combine(p_job);
  if v_is_told then
    return;
  end if;

  if p_job.parent_job_id is not null then
    perform dialectic.wake_parent(p_job.tenant_id, p_job.parent_job_id);
  else
    perform dialectic.settle_stage(
      p_job.tenant_id, p_job.session_id, p_job.iteration_number, p_job.stage_slug);
  end if;
  perform dialectic.poke_planners(p_job);
end
$$;

-- Announce a failure before everything else, so that clients see the cause before the end of the
-- stage. This is the only place that does. Cancelled jobs are not announced: their cause is another
-- failure, which is, or a user's action.
create or replace function dialectic.tell_failure(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_error jsonb := p_job.error_details -> -1;
begin
  if p_job.status not in ('failed', 'retry_loop_failed') then
    return;
  end if;
  perform dialectic.notify_session(
    p_job.tenant_id, p_job.session_id, 'contribution_generation_failed',
    dialectic.name_job(p_job) || jsonb_build_object(
      'error', jsonb_build_object(
        'code', coalesce(v_error ->> 'code', p_job.status_reason, p_job.status::text),
        'message', coalesce(v_error ->> 'message', p_job.status_reason, p_job.status::text),
        'remedy', v_error -> 'remedy')));
end
$$;

-- Whether any job waits for a combine job or will use its output.
create or replace function dialectic.is_needed(p_combine dialectic.dialectic_generation_jobs)
returns boolean
language sql stable
as $$
  select exists (
    select from dialectic.dialectic_generation_jobs w
    where w.tenant_id = p_combine.tenant_id and w.prerequisite_job_id = p_combine.id
      and not dialectic.is_ended(w.status)
  )
$$;

-- Cancel a combine job that no job waits for any more. A locked one is skipped: the transaction
-- that holds it may be about to end it and to update this very job. After locking, check again that
-- it is not needed: a new waiter locks the row without changing it.
create or replace function dialectic.drop_combine(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if p_job.prerequisite_job_id is null or p_job.status = 'completed' then
    return;
  end if;
  perform from dialectic.dialectic_generation_jobs c
  where c.tenant_id = p_job.tenant_id and c.id = p_job.prerequisite_job_id
    and c.job_type = 'combine' and not dialectic.is_needed(c)
  for no key update skip locked;
  if not found then
    return;
  end if;
  update dialectic.dialectic_generation_jobs c
  set status = 'cancelled', status_reason = 'no job waits for it any more'
  where c.tenant_id = p_job.tenant_id and c.id = p_job.prerequisite_job_id
    and not dialectic.is_ended(c.status) and c.status <> 'processing'
    and not dialectic.is_needed(c);
end
$$;

-- Jobs that wait for this one as their prerequisite resume, or fail with it.
create or replace function dialectic.tell_waiters(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if p_job.status = 'completed' then
    update dialectic.dialectic_generation_jobs j
    set status = 'pending', status_reason = null
    where j.tenant_id = p_job.tenant_id and j.prerequisite_job_id = p_job.id
      and j.status = 'waiting_for_prerequisite';
  else
    update dialectic.dialectic_generation_jobs j
    set status = 'failed', status_reason = 'prerequisite_failed',
        error_details = j.error_details || dialectic.error_entry(
          j.attempt_count, 'prerequisite_failed',
          format('The job it waited for, %s, ended as %s.', p_job.id, p_job.status))
    where j.tenant_id = p_job.tenant_id and j.prerequisite_job_id = p_job.id
      and j.status = 'waiting_for_prerequisite';
  end if;
end
$$;
