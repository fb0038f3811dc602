-- A job has ended: everyone who waited for it learns so, once.
-- Locks are taken upwards, job then parent then stage, in every transaction alike.
create or replace function dialectic.handle_job_completion(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = ''
as $$
begin
  if p_job.parent_job_id is not null then
    perform from dialectic.dialectic_generation_jobs j
    where j.tenant_id = p_job.tenant_id and j.id = p_job.parent_job_id
    for no key update;
  end if;

  if p_job.status = 'completed' then
    perform dialectic.count_finished_units(p_job);
  else
    -- Children that nobody will read are not started. One that runs may finish: it is paid for.
    update dialectic.dialectic_generation_jobs j
    set status = 'cancelled', status_reason = format('parent ended as %s', p_job.status)
    where j.tenant_id = p_job.tenant_id and j.parent_job_id = p_job.id
      and not dialectic.is_ended(j.status) and j.status <> 'processing';
  end if;
  perform dialectic.tell_waiters(p_job);

  if p_job.parent_job_id is not null then
    perform dialectic.wake_parent(p_job.tenant_id, p_job.parent_job_id);
  else
    perform dialectic.settle_stage(
      p_job.tenant_id, p_job.session_id, p_job.iteration_number, p_job.stage_slug);
  end if;
end
$$;

-- All who wait for this job as their prerequisite go on, or fail with it.
create or replace function dialectic.tell_waiters(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = ''
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
