-- A worker is alive: push out the leases it still holds, and return those jobs. A job that is
-- missing from the answer belongs to someone else by now.
create or replace function dialectic.extend_leases(
  p_tenant_ids uuid[], p_job_ids uuid[], p_attempts integer[], p_lease interval
) returns table (tenant_id uuid, job_id uuid)
language sql security definer set search_path = ''
as $$
  update dialectic.dialectic_generation_jobs j
  set lease_until = dialectic.now() + p_lease, suspect_at = null
  from unnest(p_tenant_ids, p_job_ids, p_attempts) as held (tenant_id, job_id, attempt)
  where j.tenant_id = held.tenant_id and j.id = held.job_id
    and j.attempt_count = held.attempt and j.status = 'processing'
  returning j.tenant_id, j.id
$$;
