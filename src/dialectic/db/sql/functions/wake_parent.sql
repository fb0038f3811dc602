-- Decide what a waiting parent does, now that one of its children has ended.
-- Lock the parent first and count the children in a new statement: of two children that end
-- concurrently, the second sees the first. Without the lock both could miss the wake-up.
create or replace function dialectic.wake_parent(p_tenant_id uuid, p_parent_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_parent dialectic.dialectic_generation_jobs;
  v_open integer;
  v_done integer;
  v_lost integer;
  v_needed integer;
begin
  select j.* into v_parent
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_tenant_id and j.id = p_parent_id
  for no key update;
  if v_parent.status is distinct from 'waiting_for_children' then
    return;
  end if;

  select
    count(*) filter (where not dialectic.is_ended(j.status)),
    count(*) filter (where j.status = 'completed'),
    count(*) filter (where dialectic.is_ended(j.status) and j.status <> 'completed')
  into v_open, v_done, v_lost
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_tenant_id and j.parent_job_id = p_parent_id
    and j.step_number = v_parent.current_step;
  v_needed := case v_parent.on_child_failure
    when 'all' then v_open + v_done + v_lost
    when 'quorum' then v_parent.quorum_min
    else 1
  end;

  if v_parent.is_step_open and (v_lost = 0 or v_parent.on_child_failure <> 'all') then
    return;  -- its awaited inputs will wake it to plan the rest
  elsif v_open + v_done + v_lost = 0 or v_done + v_open < v_needed then
    perform dialectic.fail_parent(v_parent, v_done, v_lost, v_needed);
  elsif v_open = 0 and v_parent.current_step < v_parent.total_steps then
    update dialectic.dialectic_generation_jobs j
    set status = 'pending_next_step', current_step = j.current_step + 1, status_reason = null
    where j.tenant_id = p_tenant_id and j.id = p_parent_id;
    if v_parent.job_type is distinct from 'combine' then
      perform dialectic.poke_stage(v_parent);
    end if;
  elsif v_open = 0 then
    update dialectic.dialectic_generation_jobs j
    set status = 'completed', status_reason = null
    where j.tenant_id = p_tenant_id and j.id = p_parent_id;
  end if;
end
$$;

-- The parent's error names the child that failed first, with that child's last error.
create or replace function dialectic.fail_parent(
  p_parent dialectic.dialectic_generation_jobs, p_done integer, p_lost integer, p_needed integer
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_message text;
begin
  select format('Step %s needs %s of its jobs and %s failed; the first was %s: %s',
    p_parent.current_step, p_needed, p_lost, j.id,
    coalesce(j.error_details -> -1 ->> 'message', j.status_reason, j.status::text))
  into v_message
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_parent.tenant_id and j.parent_job_id = p_parent.id
    and j.step_number = p_parent.current_step
    and dialectic.is_ended(j.status) and j.status <> 'completed'
  order by j.completed_at, j.id
  limit 1;
  v_message := coalesce(v_message, format('Step %s has no jobs.', p_parent.current_step));
  update dialectic.dialectic_generation_jobs j
  set status = 'failed', status_reason = 'child_failed',
      error_details = j.error_details || dialectic.error_entry(j.attempt_count, 'child_failed', v_message)
  where j.tenant_id = p_parent.tenant_id and j.id = p_parent.id;
end
$$;
