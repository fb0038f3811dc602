-- The lock of a session: the first lock of every transaction that moves its jobs. A worker's commit
-- shares it with other workers' commits, which lock jobs, stage and session in that order. A user's
-- action reads the session before it moves jobs, any number of them, so it cannot keep to that
-- order: it holds the lock alone. It waits for commits, never for a model call.

-- Named with the tenant: no tenant can hold a session of another one.
create or replace function dialectic.name_session_lock(p_session_id uuid) returns bigint
language sql stable
as $$
  select hashtextextended('session ' || dialectic.current_tenant() || ' ' || p_session_id, 0)
$$;

-- For a user's action: wait for the workers' commits and keep further ones waiting.
create or replace function dialectic.hold_session(p_session_id uuid) returns void
language plpgsql
as $$
begin
  perform pg_advisory_xact_lock(dialectic.name_session_lock(p_session_id));
  perform from dialectic.dialectic_sessions s
  where s.tenant_id = dialectic.current_tenant() and s.id = p_session_id
  for no key update;
end
$$;

-- First statement of every transaction that ends an attempt: the lock holder decides the outcome.
-- The job is read after the wait for an action, which may have moved it. Returns null if the lease
-- was lost.
create or replace function dialectic.hold_lease(p_job_id uuid, p_attempt integer, p_session_id uuid)
returns uuid
language plpgsql
as $$
declare
  v_id uuid;
begin
  perform pg_advisory_xact_lock_shared(dialectic.name_session_lock(p_session_id));
  select j.id into v_id
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = dialectic.current_tenant() and j.id = p_job_id
    and j.attempt_count = p_attempt and j.status::text = 'processing'
  for no key update;
  return v_id;
end
$$;

-- As above for a plan job, together with its siblings, which are woken when it finishes a step.
-- Plan jobs are always locked in the order of their ids.
create or replace function dialectic.hold_plan(p_job_id uuid, p_attempt integer, p_session_id uuid)
returns uuid
language plpgsql
as $$
declare
  v_id uuid;
begin
  perform pg_advisory_xact_lock_shared(dialectic.name_session_lock(p_session_id));
  with siblings as (
    select j.id, j.attempt_count, j.status
    from dialectic.dialectic_generation_jobs own
    join dialectic.dialectic_generation_jobs j
      on j.tenant_id = own.tenant_id and j.session_id = own.session_id
      and j.iteration_number = own.iteration_number and j.stage_slug = own.stage_slug
      and j.parent_job_id is null
      and j.job_type is distinct from 'combine'
    where own.tenant_id = dialectic.current_tenant() and own.id = p_job_id
    order by j.id
    for no key update of j
  )
  select s.id into v_id from siblings s
  where s.id = p_job_id and s.attempt_count = p_attempt and s.status::text = 'processing';
  return v_id;
end
$$;
