-- A worker's heartbeat: extend the leases it still holds, and return those jobs. A job that is
-- missing from the result has ended or was taken away. A locked row is skipped: waiting for it
-- could cost all other leases. No other worker can claim that job while it is locked, and the next
-- heartbeat comes before the lease expires.
create or replace function dialectic.extend_leases(
  p_tenant_ids uuid[], p_job_ids uuid[], p_attempts integer[], p_lease interval
) returns table (tenant_id uuid, job_id uuid)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with held as (
    select j.tenant_id, j.id, h.attempt
    from unnest(p_tenant_ids, p_job_ids, p_attempts) as h (tenant_id, job_id, attempt)
    join dialectic.dialectic_generation_jobs j on j.tenant_id = h.tenant_id and j.id = h.job_id
    where j.attempt_count = h.attempt and j.status = 'processing'
  ), free as (
    select j.tenant_id, j.id
    from dialectic.dialectic_generation_jobs j join held using (tenant_id, id)
    where j.attempt_count = held.attempt and j.status = 'processing'
    order by j.tenant_id, j.id
    for no key update of j skip locked
  ), beaten as (
    update dialectic.dialectic_generation_jobs j
    set lease_until = dialectic.clock() + p_lease, suspect_at = null
    from free
    where j.tenant_id = free.tenant_id and j.id = free.id
  )
  select held.tenant_id, held.id from held
$$;

-- Which of these jobs were taken from their attempt: cancelled, claimed by another worker, failed
-- as lost, or deleted. The attempt itself ended all others that it does not hold.
create or replace function dialectic.list_taken(
  p_tenant_ids uuid[], p_job_ids uuid[], p_attempts integer[]
) returns table (tenant_id uuid, job_id uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select h.tenant_id, h.job_id
  from unnest(p_tenant_ids, p_job_ids, p_attempts) as h (tenant_id, job_id, attempt)
  left join dialectic.dialectic_generation_jobs j
    on j.tenant_id = h.tenant_id and j.id = h.job_id
  where j.id is null or j.attempt_count <> h.attempt or j.status = 'cancelled'
    or j.status = 'retry_loop_failed' and j.status_reason = 'worker_lost'
$$;
