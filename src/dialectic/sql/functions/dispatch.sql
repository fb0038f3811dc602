-- The only line between our jobs and the queue: a message with the job's id and tenant.
-- The queue goes by the real clock and ours may be set by a test, hence the difference of the two.
-- Ours stands still from the beginning of the statement, so a message comes at most as much too late
-- as the statement has lasted. One that came too early would find its job not yet due, and be gone.
create or replace function dialectic.dispatch(p_job dialectic.dialectic_generation_jobs) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into queue.pgqueuer (priority, entrypoint, payload, status, dedupe_key, execute_after)
  values (
    p_job.priority,
    'job',
    convert_to(p_job.tenant_id || ' ' || p_job.id, 'UTF8'),
    'queued',
    p_job.tenant_id || ' ' || p_job.id || ':' || p_job.dispatch_count,
    p_job.run_at - (dialectic.now() - pg_catalog.clock_timestamp())
  )
  on conflict (dedupe_key) where status in ('queued', 'picked') and dedupe_key is not null
  do nothing;
end
$$;
