-- A stage's beginning, its progress and its end.

-- A stage begins with the first job that has its inputs, or when the stage before it is complete.
-- This is announced once; a stage that is retried with an earlier one begins again.
create or replace function dialectic.begin_stage_run(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer, p_stage text
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_planned integer;
begin
  update dialectic.dialectic_stage_runs r
  set status = 'generating', started_at = coalesce(r.started_at, dialectic.now())
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.stage_slug = p_stage and r.status = 'waiting'
  returning r.planned_units into v_planned;
  if found then
    perform dialectic.notify_session(p_tenant_id, p_session_id, 'contribution_generation_started',
      jsonb_build_object('sessionId', p_session_id, 'stageSlug', p_stage,
        'iterationNumber', p_iteration, 'total_steps', v_planned));
  end if;
end
$$;

-- The same for other roles: a stage of a session of the current tenant.
create or replace function dialectic.begin_stage(p_session_id uuid, p_iteration integer, p_stage text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.begin_stage_run(
    dialectic.current_tenant(), p_session_id, p_iteration, p_stage);
end
$$;

-- Count finished documents of one type in the units by step.
create or replace function dialectic.count_step_units(
  p_step_units jsonb, p_output_type text, p_finished integer
) returns jsonb
language sql immutable
as $$
  select case when p_step_units ? p_output_type then jsonb_set(
    p_step_units, array[p_output_type, 'finished'], to_jsonb(least(
      (p_step_units #>> array[p_output_type, 'planned'])::integer,
      (p_step_units #>> array[p_output_type, 'finished'])::integer + p_finished)))
  else p_step_units end
$$;

create or replace function dialectic.count_finished_units(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_run dialectic.dialectic_stage_runs;
  v_step jsonb;
begin
  if p_job.finished_units = 0 then
    return;
  end if;
  update dialectic.dialectic_stage_runs r
  set finished_units = least(r.planned_units, r.finished_units + p_job.finished_units),
      step_units = dialectic.count_step_units(
        r.step_units, p_job.output_type, p_job.finished_units)
  where r.tenant_id = p_job.tenant_id and r.session_id = p_job.session_id
    and r.iteration_number = p_job.iteration_number and r.stage_slug = p_job.stage_slug
  returning r.* into v_run;
  if found then
    v_step := v_run.step_units -> p_job.output_type;
    perform dialectic.notify_session(p_job.tenant_id, p_job.session_id, 'dialectic_progress_update',
      dialectic.name_job(p_job) || jsonb_build_object(
        'current_step', v_run.finished_units, 'total_steps', v_run.planned_units,
        'message', case
          when v_step is null
          then format('%s of %s documents', v_run.finished_units, v_run.planned_units)
          else format('%s: %s of %s', v_step ->> 'label', v_step ->> 'finished', v_step ->> 'planned')
        end));
  end if;
end
$$;

-- A stage ends when all its plan jobs have ended; this is announced once, with the counts. The row
-- is locked first, for the reason given in wake_parent. On autopilot the next stage starts.
create or replace function dialectic.settle_stage(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer, p_stage text
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_run dialectic.dialectic_stage_runs;
  v_open integer;
  v_done integer;
  v_failed integer;
  v_cancelled integer;
  v_spared integer;
  v_status text;
begin
  select r.* into v_run
  from dialectic.dialectic_stage_runs r
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.stage_slug = p_stage
  for no key update;
  if not found or v_run.completed_at is not null then
    return;
  end if;
  select
    count(*) filter (where not dialectic.is_ended(j.status)),
    count(*) filter (where j.status = 'completed'),
    count(*) filter (where j.status in ('failed', 'retry_loop_failed')),
    count(*) filter (where j.status = 'cancelled'),
    -- A seat that left is missing, but the stage does without it.
    count(*) filter (where j.status <> 'completed' and dialectic.seat_of(j) = any (s.dropped_seats))
  into v_open, v_done, v_failed, v_cancelled, v_spared
  from dialectic.dialectic_generation_jobs j
  join dialectic.dialectic_sessions s on s.tenant_id = j.tenant_id and s.id = j.session_id
  where j.tenant_id = p_tenant_id and j.session_id = p_session_id
    and j.iteration_number = p_iteration and j.stage_slug = p_stage
    and dialectic.is_part_of_stage(j);
  if v_open > 0 or v_done + v_failed + v_cancelled = 0 then
    return;
  end if;

  v_status := case
    when v_done > 0 and v_failed + v_cancelled = v_spared then 'complete'
    when v_failed > 0 then 'failed'
    else 'cancelled'
  end;
  update dialectic.dialectic_stage_runs r
  set status = v_status, completed_at = dialectic.now(),
      -- The documents of a seat that left will not come.
      planned_units = case when v_status = 'complete' and r.lost_seats <> '{}'
        then greatest(1, r.finished_units) else r.planned_units end
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.stage_slug = p_stage;
  perform dialectic.notify_session(p_tenant_id, p_session_id, 'contribution_generation_complete',
    jsonb_build_object('sessionId', p_session_id, 'stageSlug', p_stage, 'iterationNumber', p_iteration,
      'status', v_status, 'completed', v_done, 'failed', v_failed, 'cancelled', v_cancelled));
  if v_status = 'complete' then
    perform dialectic.advance_session(p_tenant_id, p_session_id, p_iteration);
  else
    perform dialectic.move_session(p_tenant_id, p_session_id, p_iteration, p_stage, 'failed');
    -- Cancel later stages: their inputs will not come. Their finished documents stay.
    update dialectic.dialectic_generation_jobs j
    set status = 'cancelled', status_reason = format('stage %s %s', p_stage, v_status)
    where j.tenant_id = p_tenant_id and j.session_id = p_session_id and j.parent_job_id is null
      and j.iteration_number = p_iteration and not dialectic.is_ended(j.status)
      and j.stage_slug in (
        select r.stage_slug from dialectic.dialectic_stage_runs r
        where r.tenant_id = p_tenant_id and r.session_id = p_session_id
          and r.iteration_number = p_iteration and r.position > v_run.position);
  end if;
  perform dialectic.make_description_due(s.tenant_id, s.project_id)
  from dialectic.dialectic_sessions s
  where s.tenant_id = p_tenant_id and s.id = p_session_id;
end
$$;

-- The session's current stage is the first that is not complete. Stages may end out of order: the
-- last plan job of one may still run when the next has all its inputs. The session is locked before
-- the stages are read, so of two that end concurrently the second sees the first.
create or replace function dialectic.advance_session(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_run dialectic.dialectic_stage_runs;
  v_session dialectic.dialectic_sessions;
begin
  select s.* into v_session from dialectic.dialectic_sessions s
  where s.tenant_id = p_tenant_id and s.id = p_session_id
  for no key update;
  select r.* into v_run
  from dialectic.dialectic_stage_runs r
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id and r.iteration_number = p_iteration
  order by r.status = 'complete', case when r.status = 'complete' then -r.position else r.position end
  limit 1;
  if v_run.status = 'waiting' then
    perform dialectic.begin_stage_run(p_tenant_id, p_session_id, p_iteration, v_run.stage_slug);
  end if;
  -- Whether it left dissent is found by a worker, which then lets the session wait or go on.
  if v_run.status = 'complete' and dialectic.is_judged_first(v_session, v_run) then
    return;
  end if;
  if v_run.status in ('waiting', 'generating', 'complete') then
    perform dialectic.move_session(p_tenant_id, p_session_id, p_iteration, v_run.stage_slug, case
      when v_run.status <> 'complete' then 'generating'
      when v_run.is_last then 'iteration_complete'
      else 'stage_complete'
    end::dialectic.dialectic_session_phase);
  end if;
end
$$;

-- Whether the end of a stage is judged by what its documents do not agree on.
create or replace function dialectic.is_judged_first(
  p_session dialectic.dialectic_sessions, p_run dialectic.dialectic_stage_runs
) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
as $$
  select p_session.pause_on_dissent and p_session.is_autopilot and not p_run.is_last
    and p_run.stage_slug <> p_session.until_stage_slug
$$;

-- The sessions whose newest stage is complete and not yet judged, of all tenants.
create or replace function dialectic.list_unjudged(p_limit integer)
returns table (tenant_id uuid, session_id uuid, iteration_number integer, stage_slug text,
  user_id uuid, wallet_id uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select s.tenant_id, s.id, s.iteration_count, r.stage_slug, s.user_id, s.wallet_id
  from dialectic.dialectic_sessions s
  cross join lateral (
    select r.* from dialectic.dialectic_stage_runs r
    where r.tenant_id = s.tenant_id and r.session_id = s.id
      and r.iteration_number = s.iteration_count
    order by r.position desc
    limit 1
  ) r
  where s.pause_on_dissent and s.phase = 'generating' and r.status = 'complete'
    and dialectic.is_judged_first(s, r)
  order by r.completed_at, s.id
  limit p_limit
$$;

-- Let a session wait for a person after a stage that left dissent.
create or replace function dialectic.wait_after_stage(
  p_session_id uuid, p_iteration integer, p_stage text
) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select dialectic.move_session(dialectic.current_tenant(), p_session_id, p_iteration, p_stage,
    'stage_complete'::dialectic.dialectic_session_phase)
$$;

-- Move a generating session to its next stage and phase, also while it is paused.
create or replace function dialectic.move_session(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer, p_stage text,
  p_phase dialectic.dialectic_session_phase
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update dialectic.dialectic_sessions s
  set current_stage_slug = p_stage,
      phase = case when s.phase = 'paused' then s.phase else p_phase end,
      phase_before_pause = case when s.phase = 'paused' then p_phase end
  where s.tenant_id = p_tenant_id and s.id = p_session_id and s.iteration_count = p_iteration
    and coalesce(s.phase_before_pause, s.phase) = 'generating';
end
$$;
