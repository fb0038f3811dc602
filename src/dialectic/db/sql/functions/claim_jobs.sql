-- Claim jobs for a worker, several in one commit; returns only the jobs that were claimed. A job
-- can be claimed when it is due, or when its worker's lease has expired and the grace period has
-- passed. Each claim takes a new fencing token (attempt_count), which blocks later writes of the
-- old holder.
create or replace function dialectic.claim_jobs(
  p_tenant_ids uuid[], p_job_ids uuid[], p_worker text, p_lease interval, p_grace interval,
  p_lost_max integer, p_is_patient boolean default false
) returns setof dialectic.dialectic_generation_jobs
-- A custom plan for every list of ids takes longer than the statement itself.
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set lock_timeout = '500ms'
as $$
begin
  -- Skip a locked row, or (p_is_patient) wait for it briefly: every child that ends locks its plan
  -- job, so a worker that always skips might never claim it.
  if p_is_patient then
    perform from dialectic.dialectic_generation_jobs j
    join unnest(p_tenant_ids, p_job_ids) as wanted (tenant_id, job_id)
      on j.tenant_id = wanted.tenant_id and j.id = wanted.job_id
    where dialectic.is_claimable(j, p_grace)
    order by j.tenant_id, j.id
    for no key update of j;
  end if;
  return query
    update dialectic.dialectic_generation_jobs j
    set status = 'processing', status_reason = null,
        attempt_count = j.attempt_count + 1,
        lease_until = dialectic.clock() + p_lease,
        suspect_at = null,
        worker = p_worker,
        started_at = coalesce(j.started_at, dialectic.now()),
        lost_count = j.lost_count + due.is_lost::integer,
        error_details = case
          when due.is_lost then j.error_details || dialectic.lost_entry(j)
          else j.error_details
        end
    from unnest(p_tenant_ids, p_job_ids) as wanted (tenant_id, job_id)
    cross join lateral (
      select d.tenant_id, d.id, d.status = 'processing' as is_lost
      from dialectic.dialectic_generation_jobs d
      join dialectic.dialectic_sessions s on s.tenant_id = d.tenant_id and s.id = d.session_id
      left join dialectic.dialectic_generation_jobs p
        on p.tenant_id = d.tenant_id and p.id = d.parent_job_id
      where d.tenant_id = wanted.tenant_id and d.id = wanted.job_id
        and dialectic.is_claimable(d, p_grace)
        and (d.status <> 'processing' or d.lost_count < p_lost_max)
        and s.phase not in ('paused', 'cancelled')
        and (p.status is null or not dialectic.is_ended(p.status))
      for no key update of d skip locked
    ) due
    where j.tenant_id = due.tenant_id and j.id = due.id
    returning j.*;
end
$$;

-- Whether a job can be claimed: it is due, or its holder abandoned it.
create or replace function dialectic.is_claimable(
  p_job dialectic.dialectic_generation_jobs, p_grace interval
) returns boolean
language sql stable
as $$
  select case
    when dialectic.is_runnable(p_job.status) then p_job.run_at <= dialectic.now()
    when p_job.status = 'processing' then dialectic.is_abandoned(p_job, p_grace)
    else false
  end
$$;

-- Whether the lease has expired and the grace period since its detection has passed.
create or replace function dialectic.is_abandoned(
  p_job dialectic.dialectic_generation_jobs, p_grace interval
) returns boolean
language sql stable
as $$
  select p_job.lease_until < dialectic.now() and p_job.suspect_at <= dialectic.now() - p_grace
$$;

-- Record that a worker died or froze with this job, as an error of the job.
create or replace function dialectic.lost_entry(p_job dialectic.dialectic_generation_jobs)
returns jsonb
language sql stable
as $$
  select dialectic.error_entry(p_job.attempt_count, 'worker_lost',
    format('Worker %s stopped responding while it ran this job.', p_job.worker))
$$;

-- End or pause requested jobs that must no longer run: a job that crashed several workers, a job
-- whose parent has ended (its output is not needed), a job of a paused session.
-- Other jobs stay unchanged: their next claim records the lost worker. Returns the number moved.
-- A separate statement after the claims that never waits long: it is best effort, and the sweeper
-- repeats it.
create or replace function dialectic.turn_away_jobs(
  p_tenant_ids uuid[], p_job_ids uuid[], p_grace interval, p_lost_max integer
) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_status dialectic.dialectic_job_status;
  v_reason text;
  v_count integer := 0;
begin
  for v_job in
    select j.*
    from dialectic.dialectic_generation_jobs j
    join unnest(p_tenant_ids, p_job_ids) as wanted (tenant_id, job_id)
      on wanted.tenant_id = j.tenant_id and wanted.job_id = j.id
    where dialectic.is_claimable(j, p_grace)
    order by j.tenant_id, j.id
    for no key update of j skip locked
  loop
    select verdict.status, verdict.reason into v_status, v_reason
    from dialectic.judge(v_job, p_lost_max) verdict;
    continue when v_status is null;
    update dialectic.dialectic_generation_jobs j
    set status = v_status, status_reason = v_reason,
        lost_count = j.lost_count + (j.status = 'processing')::integer,
        error_details = case
          when j.status = 'processing' then j.error_details || dialectic.lost_entry(j)
          else j.error_details
        end
    where j.tenant_id = v_job.tenant_id and j.id = v_job.id;
    v_count := v_count + 1;
  end loop;
  return v_count;
end
$$;

-- The status that a claimable job must take, and why; null when it may run. The session stays
-- locked until the status is written: otherwise a concurrent resume would miss the job, which would
-- then stay paused.
create or replace function dialectic.judge(
  p_job dialectic.dialectic_generation_jobs, p_lost_max integer,
  out status dialectic.dialectic_job_status, out reason text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_session_phase dialectic.dialectic_session_phase;
begin
  if p_job.status = 'processing' and p_job.lost_count >= p_lost_max then
    status := 'retry_loop_failed';
    reason := 'worker_lost';
    return;
  end if;
  if exists (
    select from dialectic.dialectic_generation_jobs p
    where p.tenant_id = p_job.tenant_id and p.id = p_job.parent_job_id
      and dialectic.is_ended(p.status)
  ) then
    status := 'cancelled';
    reason := 'parent ended';
    return;
  end if;
  select s.phase into v_session_phase
  from dialectic.dialectic_sessions s
  where s.tenant_id = p_job.tenant_id and s.id = p_job.session_id
  for share;
  if v_session_phase in ('paused', 'cancelled') then
    status := v_session_phase;
    reason := 'session ' || v_session_phase;
  end if;
end
$$;
