-- Give a job to a worker, or say no by returning nothing.
-- A job is claimed when it is due, or when the worker that had it let its lease run out and did not
-- come back within the grace. Each claim takes a new fencing token (attempt_count): what the old
-- holder still writes is refused by it.
create or replace function dialectic.claim_job(
  p_tenant_id uuid, p_job_id uuid, p_worker text, p_lease interval, p_grace interval,
  p_lost_max integer
) returns setof dialectic.dialectic_generation_jobs
language plpgsql security definer set search_path = ''
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_session_status text;
begin
  select j.* into v_job
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_tenant_id and j.id = p_job_id
    and (
      (j.status in ('pending', 'pending_next_step', 'pending_continuation', 'retrying')
        and j.run_at <= dialectic.now())
      or (j.status = 'processing' and dialectic.is_abandoned(j, p_grace))
    )
  for no key update skip locked;
  if not found then
    return;
  end if;

  if v_job.status = 'processing' then
    v_job := dialectic.record_lost_lease(v_job, p_lost_max);
    if v_job.status <> 'processing' then
      return;
    end if;
  end if;
  -- Nobody reads what the child of an ended parent would still write.
  if exists (
    select from dialectic.dialectic_generation_jobs p
    where p.tenant_id = p_tenant_id and p.id = v_job.parent_job_id and dialectic.is_ended(p.status)
  ) then
    update dialectic.dialectic_generation_jobs j
    set status = 'cancelled', status_reason = 'parent ended'
    where j.tenant_id = p_tenant_id and j.id = p_job_id;
    return;
  end if;
  select s.status into v_session_status
  from dialectic.dialectic_sessions s
  where s.tenant_id = p_tenant_id and s.id = v_job.session_id;
  if v_session_status in ('paused', 'cancelled') then
    update dialectic.dialectic_generation_jobs j
    set status = v_session_status::dialectic.dialectic_job_status,
        status_reason = 'session ' || v_session_status
    where j.tenant_id = p_tenant_id and j.id = p_job_id;
    return;
  end if;

  return query
    update dialectic.dialectic_generation_jobs j
    set status = 'processing', status_reason = null,
        attempt_count = j.attempt_count + 1,
        lease_until = dialectic.now() + p_lease,
        suspect_at = null,
        worker = p_worker,
        started_at = coalesce(j.started_at, dialectic.now())
    where j.tenant_id = p_tenant_id and j.id = p_job_id
    returning j.*;
end
$$;

-- Several at once, in one commit: messages come in batches, and so may their claims.
create or replace function dialectic.claim_jobs(
  p_tenant_ids uuid[], p_job_ids uuid[], p_worker text, p_lease interval, p_grace interval,
  p_lost_max integer
) returns setof dialectic.dialectic_generation_jobs
language sql security definer set search_path = ''
as $$
  select claimed.*
  from unnest(p_tenant_ids, p_job_ids) as wanted (tenant_id, job_id)
  cross join lateral dialectic.claim_job(
    wanted.tenant_id, wanted.job_id, p_worker, p_lease, p_grace, p_lost_max) as claimed
$$;

-- The lease has run out, and the holder has had the grace since that was noticed.
create or replace function dialectic.is_abandoned(
  p_job dialectic.dialectic_generation_jobs, p_grace interval
) returns boolean
language sql stable
as $$
  select p_job.lease_until < dialectic.now() and p_job.suspect_at <= dialectic.now() - p_grace
$$;

-- A worker died or froze with this job. That is an error like any other and is kept as one; a job
-- that takes down worker after worker is not handed to yet another.
create or replace function dialectic.record_lost_lease(
  p_job dialectic.dialectic_generation_jobs, p_lost_max integer
) returns dialectic.dialectic_generation_jobs
language sql security definer set search_path = ''
as $$
  update dialectic.dialectic_generation_jobs j
  set lost_count = j.lost_count + 1,
      status = case
        when j.lost_count >= p_lost_max then 'retry_loop_failed'
        else 'processing'
      end::dialectic.dialectic_job_status,
      error_details = j.error_details || dialectic.error_entry(j.attempt_count, 'worker_lost',
        format('Worker %s stopped answering while it ran this job.', j.worker))
  where j.tenant_id = p_job.tenant_id and j.id = p_job.id
  returning j.*
$$;
