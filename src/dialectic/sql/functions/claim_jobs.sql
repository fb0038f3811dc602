-- Give jobs to a worker, several in one commit; what is not to be had is missing from the answer.
-- A job is claimed when it is due, or when the worker that had it let its lease run out and did not
-- come back within the grace. Each claim takes a new fencing token (attempt_count): what the old
-- holder still writes is refused by it.
create or replace function dialectic.claim_jobs(
  p_tenant_ids uuid[], p_job_ids uuid[], p_worker text, p_lease interval, p_grace interval,
  p_lost_max integer
) returns setof dialectic.dialectic_generation_jobs
-- Planning this anew for every list of ids takes longer than carrying it out.
language plpgsql security definer set search_path = '' set plan_cache_mode = force_generic_plan
as $$
declare
  v_claimed integer;
begin
  return query
    update dialectic.dialectic_generation_jobs j
    set status = 'processing', status_reason = null,
        attempt_count = j.attempt_count + 1,
        lease_until = dialectic.now() + p_lease,
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
        and dialectic.is_to_be_had(d, p_grace)
        and (d.status <> 'processing' or d.lost_count < p_lost_max)
        and s.status not in ('paused', 'cancelled')
        and (p.status is null or not dialectic.is_ended(p.status))
      for no key update of d skip locked
    ) due
    where j.tenant_id = due.tenant_id and j.id = due.id
    returning j.*;
  get diagnostics v_claimed = row_count;
  if v_claimed < cardinality(p_job_ids) then
    perform dialectic.turn_away(wanted.tenant_id, wanted.job_id, p_grace, p_lost_max)
    from unnest(p_tenant_ids, p_job_ids) as wanted (tenant_id, job_id);
  end if;
end
$$;

-- Due, or left behind by its holder.
create or replace function dialectic.is_to_be_had(
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

-- The lease has run out, and the holder has had the grace since that was noticed.
create or replace function dialectic.is_abandoned(
  p_job dialectic.dialectic_generation_jobs, p_grace interval
) returns boolean
language sql stable
as $$
  select p_job.lease_until < dialectic.now() and p_job.suspect_at <= dialectic.now() - p_grace
$$;

-- A worker died or froze with this job: that is an error like any other and is kept as one.
create or replace function dialectic.lost_entry(p_job dialectic.dialectic_generation_jobs)
returns jsonb
language sql stable
as $$
  select dialectic.error_entry(p_job.attempt_count, 'worker_lost',
    format('Worker %s stopped answering while it ran this job.', p_job.worker))
$$;

-- A job that was asked for and must not run any more ends, or waits: one that took down worker
-- after worker, one whose parent has ended (nobody would read it), one of a session that stands
-- still.
create or replace function dialectic.turn_away(
  p_tenant_id uuid, p_job_id uuid, p_grace interval, p_lost_max integer
) returns void
language plpgsql security definer set search_path = ''
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_session_status text;
begin
  select j.* into v_job
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_tenant_id and j.id = p_job_id and dialectic.is_to_be_had(j, p_grace)
  for no key update skip locked;
  if not found then
    return;
  end if;
  if v_job.status = 'processing' then
    update dialectic.dialectic_generation_jobs j
    set status = case when j.lost_count < p_lost_max then j.status else 'retry_loop_failed' end,
        lost_count = j.lost_count + 1,
        error_details = j.error_details || dialectic.lost_entry(j)
    where j.tenant_id = p_tenant_id and j.id = p_job_id
    returning j.* into v_job;
  end if;
  select s.status into v_session_status
  from dialectic.dialectic_sessions s
  where s.tenant_id = p_tenant_id and s.id = v_job.session_id;

  if dialectic.is_ended(v_job.status) then
    return;
  elsif exists (
    select from dialectic.dialectic_generation_jobs p
    where p.tenant_id = p_tenant_id and p.id = v_job.parent_job_id and dialectic.is_ended(p.status)
  ) then
    update dialectic.dialectic_generation_jobs j
    set status = 'cancelled', status_reason = 'parent ended'
    where j.tenant_id = p_tenant_id and j.id = p_job_id;
  elsif v_session_status in ('paused', 'cancelled') then
    update dialectic.dialectic_generation_jobs j
    set status = v_session_status::dialectic.dialectic_job_status,
        status_reason = 'session ' || v_session_status
    where j.tenant_id = p_tenant_id and j.id = p_job_id;
  end if;
end
$$;
