-- The only line between our jobs and the queue: a message with the job's id and tenant, in a lane.
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
    dialectic.lane_of(p_job),
    convert_to(p_job.tenant_id || ' ' || p_job.id, 'UTF8'),
    'queued',
    p_job.tenant_id || ' ' || p_job.id || ':' || p_job.dispatch_count,
    p_job.run_at - (dialectic.now() - pg_catalog.clock_timestamp())
  )
  on conflict (dedupe_key) where status in ('queued', 'picked') and dedupe_key is not null
  do nothing;
end
$$;

-- The lane a job's message takes, so that workers can leave alone what has to wait: plans, the calls
-- of each endpoint, and everything else. A stage without steps is one call, although it is planned.
create or replace function dialectic.lane_of(p_job dialectic.dialectic_generation_jobs) returns text
language sql stable
as $$
  select case
    when p_job.payload ->> 'model_name' is null then 'job'
    when p_job.payload ->> 'job_type' = 'combine' then 'plan'
    when p_job.payload ->> 'job_type' = 'plan' and exists (
      select from dialectic.dialectic_sessions s
      join dialectic.dialectic_stages t
        on t.tenant_id = s.tenant_id and t.process_template_id = s.process_template_id
      where s.tenant_id = p_job.tenant_id and s.id = p_job.session_id
        and t.slug = p_job.stage_slug and t.input_artifact_rules ? 'steps'
    ) then 'plan'
    else 'call:' || split_part(p_job.payload ->> 'model_name', '/', 1)
  end
$$;

-- The lanes in which messages wait, each found by one look into the queue's index.
create or replace function dialectic.list_lanes() returns table (lane text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  with recursive lanes as (
    (select q.entrypoint from queue.pgqueuer q
      where q.status = 'queued' order by q.entrypoint limit 1)
    union all
    select (
      select q.entrypoint from queue.pgqueuer q
      where q.status = 'queued' and q.entrypoint > l.entrypoint
      order by q.entrypoint limit 1)
    from lanes l where l.entrypoint is not null
  )
  select l.entrypoint from lanes l where l.entrypoint is not null
$$;

-- In how long the next message of these lanes is due: at once, if one is that could not begin; null if
-- none waits.
create or replace function dialectic.find_due(p_lanes text[]) returns interval
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select case
    when exists (
      select from queue.pgqueuer q
      where q.status = 'queued' and q.entrypoint = any (p_lanes) and q.execute_after <= now()
    ) then interval '0'
    else (
      select q.execute_after - now() from queue.pgqueuer q
      where q.status = 'queued' and q.entrypoint = any (p_lanes) and q.execute_after > now()
      order by q.execute_after
      limit 1
    )
  end
$$;
