-- A stage's progress and its end.

create or replace function dialectic.count_finished_units(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = ''
as $$
declare
  v_run dialectic.dialectic_stage_runs;
begin
  if p_job.finished_units = 0 then
    return;
  end if;
  update dialectic.dialectic_stage_runs r
  set finished_units = least(r.planned_units, r.finished_units + p_job.finished_units)
  where r.tenant_id = p_job.tenant_id and r.session_id = p_job.session_id
    and r.iteration_number = p_job.iteration_number and r.stage_slug = p_job.stage_slug
  returning r.* into v_run;
  if found then
    perform dialectic.notify_session(p_job.tenant_id, p_job.session_id, 'dialectic_progress_update',
      jsonb_build_object(
        'sessionId', p_job.session_id, 'stageSlug', p_job.stage_slug,
        'iterationNumber', p_job.iteration_number, 'job_id', p_job.id,
        'current_step', v_run.finished_units, 'total_steps', v_run.planned_units,
        'message', format('%s of %s documents', v_run.finished_units, v_run.planned_units)));
  end if;
end
$$;

-- The stage is over when all its root jobs have ended: said once, with the counts. The row is
-- locked first, for the reason given in wake_parent.
create or replace function dialectic.settle_stage(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer, p_stage text
) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  v_status text;
  v_open integer;
  v_done integer;
  v_failed integer;
  v_cancelled integer;
begin
  select r.status into v_status
  from dialectic.dialectic_stage_runs r
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.stage_slug = p_stage
  for no key update;
  if v_status is distinct from 'generating' then
    return;
  end if;
  select
    count(*) filter (where not dialectic.is_ended(j.status)),
    count(*) filter (where j.status = 'completed'),
    count(*) filter (where j.status in ('failed', 'retry_loop_failed')),
    count(*) filter (where j.status = 'cancelled')
  into v_open, v_done, v_failed, v_cancelled
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_tenant_id and j.session_id = p_session_id and j.parent_job_id is null
    and j.iteration_number = p_iteration and j.stage_slug = p_stage;
  if v_open > 0 or v_done + v_failed + v_cancelled = 0 then
    return;
  end if;

  v_status := case when v_failed > 0 then 'failed' when v_cancelled > 0 then 'cancelled' else 'complete' end;
  update dialectic.dialectic_stage_runs r
  set status = v_status, completed_at = dialectic.now()
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.stage_slug = p_stage;
  update dialectic.dialectic_sessions s
  set status = p_stage || case v_status
        when 'complete' then '_generation_complete' else '_generation_failed'
      end,
      status_before_pause = null
  where s.tenant_id = p_tenant_id and s.id = p_session_id
    and 'generating_' || p_stage in (s.status, s.status_before_pause);
  perform dialectic.notify_session(p_tenant_id, p_session_id, 'contribution_generation_complete',
    jsonb_build_object('sessionId', p_session_id, 'stageSlug', p_stage, 'iterationNumber', p_iteration,
      'status', v_status, 'completed', v_done, 'failed', v_failed, 'cancelled', v_cancelled));
end
$$;
