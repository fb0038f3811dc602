-- Repair stuck jobs of all tenants: the last resort that makes every notification optional. A
-- message can be lost (a frozen worker that wakes up may acknowledge a message that another worker
-- processes); a lease can expire. Returns the number of changed rows.
create or replace function dialectic.sweep_jobs(p_grace interval, p_limit integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_count integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('dialectic.sweep_jobs')) then
    return 0;
  end if;
  -- Skip locked rows until the next sweep: a worker that froze inside a transaction must not block
  -- the sweep.
  with silent as (
    select s.tenant_id, s.id
    from dialectic.dialectic_generation_jobs s
    where s.status = 'processing' and s.lease_until < dialectic.now()
      and (s.suspect_at is null or s.suspect_at > dialectic.now())
    for no key update skip locked
  )
  update dialectic.dialectic_generation_jobs j
  set suspect_at = dialectic.now()
  from silent
  where j.tenant_id = silent.tenant_id and j.id = silent.id;

  for v_job in
    select j.* from dialectic.dialectic_generation_jobs j
    where (
        (dialectic.is_runnable(j.status) and j.run_at <= dialectic.now())
        or (j.status = 'processing' and dialectic.is_abandoned(j, p_grace))
      )
      -- A picked message counts like a queued one, unless its holder is the dead worker.
      and not exists (
        select from queue.pgqueuer q
        where q.dedupe_key = j.tenant_id || ' ' || j.id || ':' || j.dispatch_count
          and (q.status = 'queued' or q.status = 'picked' and j.status <> 'processing')
      )
    order by j.run_at
    limit p_limit
    for no key update skip locked
  loop
    update dialectic.dialectic_generation_jobs j
    set dispatch_count = j.dispatch_count + 1
    where j.tenant_id = v_job.tenant_id and j.id = v_job.id
    returning j.* into v_job;
    perform dialectic.dispatch(v_job);
    v_count := v_count + 1;
  end loop;
  -- PgQueuer keeps a log that Dialectic does not read.
  delete from queue.pgqueuer_log l
  where l.id in (
    select id from queue.pgqueuer_log
    where created < pg_catalog.now() - interval '10 minutes' order by created limit 1000
  );
  return v_count + dialectic.sweep_waiting(p_limit);
end
$$;

-- Wake jobs whose wait is over. None should ever be found; each one is a lost wake-up that nothing
-- else would repeat.
create or replace function dialectic.sweep_waiting(p_limit integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_count integer := 0;
begin
  for v_job in
    select p.* from dialectic.dialectic_generation_jobs p
    where p.status = 'waiting_for_children' and not p.is_step_open
      and not exists (
        select from dialectic.dialectic_generation_jobs c
        where c.tenant_id = p.tenant_id and c.parent_job_id = p.id
          and c.step_number = p.current_step and not dialectic.is_ended(c.status)
      )
    order by p.id limit p_limit
  loop
    perform dialectic.wake_parent(v_job.tenant_id, v_job.id);
    perform dialectic.poke_siblings(v_job);
    v_count := v_count + 1;
  end loop;
  for v_job in
    select p.* from dialectic.dialectic_generation_jobs p
    where dialectic.is_ended(p.status) and exists (
      select from dialectic.dialectic_generation_jobs w
      where w.tenant_id = p.tenant_id and w.prerequisite_job_id = p.id
        and w.status = 'waiting_for_prerequisite'
    )
    order by p.id limit p_limit
  loop
    perform dialectic.tell_waiters(v_job);
    v_count := v_count + 1;
  end loop;
  -- Money was released while the job was locked.
  for v_job in
    select distinct on (j.tenant_id, s.wallet_id) j.*
    from dialectic.dialectic_generation_jobs j
    join dialectic.dialectic_sessions s on s.tenant_id = j.tenant_id and s.id = j.session_id
    where j.awaited_credits is not null
    order by j.tenant_id, s.wallet_id
    limit p_limit
  loop
    v_count := v_count + dialectic.wake_funded(s.tenant_id, s.wallet_id)
    from dialectic.dialectic_sessions s
    where s.tenant_id = v_job.tenant_id and s.id = v_job.session_id;
  end loop;
  -- A combine job that planned its merges just when its last waiter ended. A new waiter may have
  -- come before the lock, so check again after locking.
  for v_job in
    select c.* from dialectic.dialectic_generation_jobs c
    where c.status = 'waiting_for_children' and c.job_type = 'combine'
      and not dialectic.is_needed(c)
    order by c.id limit p_limit
    for no key update skip locked
  loop
    update dialectic.dialectic_generation_jobs j
    set status = 'cancelled', status_reason = 'no job waits for it any more'
    where j.tenant_id = v_job.tenant_id and j.id = v_job.id and not dialectic.is_needed(j);
    v_count := v_count + found::integer;
  end loop;
  -- If all jobs of an iteration wait and none runs, wake the plan jobs that await inputs.
  for v_job in
    with busy as materialized (
      select distinct j.tenant_id, j.session_id, j.iteration_number
      from dialectic.dialectic_generation_jobs j
      where dialectic.is_runnable(j.status) or j.status = 'processing'
    )
    select p.* from dialectic.dialectic_generation_jobs p
    where dialectic.is_waiting(p.status) and p.awaits <> '{}'
      and (p.tenant_id, p.session_id, p.iteration_number) not in (
        select b.tenant_id, b.session_id, b.iteration_number from busy b
      )
      and not exists (
        select from dialectic.dialectic_generation_jobs j
        where j.tenant_id = p.tenant_id and j.session_id = p.session_id
          and j.iteration_number = p.iteration_number and j.status = 'paused'
      )
    order by p.id limit p_limit
    for no key update of p skip locked
  loop
    perform dialectic.poke(v_job.tenant_id, v_job.id);
    v_count := v_count + 1;
  end loop;
  return v_count;
end
$$;
