-- Trigger before a job row is written: reject moves that are not in dialectic_job_moves, and set
-- the columns that depend on the move.
create or replace function dialectic.job_guard() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'INSERT' then
    new.changed_in := pg_current_xact_id();
    if new.status not in ('pending', 'pending_continuation', 'waiting_for_prerequisite') then
      raise exception 'a job cannot start as %', new.status
        using errcode = 'DJ001', constraint = 'first_status_is_allowed';
    end if;
    if new.prerequisite_job_id is not null then
      new := dialectic.look_at_prerequisite(new);
    end if;
    new.dispatch_count := dialectic.is_runnable(new.status)::integer;
    new.completed_at := case when dialectic.is_ended(new.status) then dialectic.now() end;
    return new;
  end if;

  if (new.tenant_id, new.id, new.session_id, new.parent_job_id)
      is distinct from (old.tenant_id, old.id, old.session_id, old.parent_job_id)
      or new.payload <> old.payload and not dialectic.is_reseated(old, new) then
    raise exception 'the definition of job % is immutable', old.id
      using errcode = 'DJ002', constraint = 'job_never_changes';
  end if;
  if new.prerequisite_job_id is distinct from old.prerequisite_job_id
      and new.prerequisite_job_id is not null then
    perform dialectic.refuse_prerequisite_cycle(new);
  end if;
  if new.attempt_count < old.attempt_count
      or (new.status = 'processing' and old.status <> 'processing'
          and new.attempt_count <> old.attempt_count + 1) then
    raise exception 'job % was claimed without a new token', old.id
      using errcode = 'DJ002', constraint = 'claim_has_a_new_token';
  end if;
  if new.attempt_count > old.attempt_count then
    new.is_poked := false;  -- the new attempt reads all current inputs
  end if;
  if new.status <> old.status or new.payload <> old.payload then
    new.changed_in := pg_current_xact_id();
  end if;
  if new.status = old.status then
    return new;
  end if;
  if new.status = 'waiting_for_prerequisite' and new.prerequisite_job_id is not null then
    new := dialectic.look_at_prerequisite(new);
  end if;

  if not exists (
    select from dialectic.dialectic_job_moves m
    where m.from_status = old.status and m.to_status = new.status
  ) then
    raise exception 'job % cannot move from % to %', old.id, old.status, new.status
      using errcode = 'DJ001', constraint = 'job_moves_by_the_table';
  end if;
  if old.status = 'processing' then
    new.lease_until := null;
    new.suspect_at := null;
    new.worker := null;
  end if;
  -- A throttled period lasts while calls follow each other; waiting or ending resets it.
  if new.status not in ('processing', 'retrying') then
    new.throttled_since := null;
  end if;
  -- The awaited input arrived while the job was running.
  if new.is_poked and dialectic.is_waiting(new.status) then
    new.is_poked := false;
    new.status_reason := null;
    new.status := case new.status
      when 'waiting_for_children' then 'pending_next_step' else 'pending'
    end;
  end if;
  -- What a job waits for is over when it waits no longer.
  if new.status <> 'retrying' then
    new.awaited_credits := null;
    new.reason_figures := null;
  end if;
  if dialectic.is_runnable(new.status) then
    new.dispatch_count := old.dispatch_count + 1;
  end if;
  new.completed_at := case when dialectic.is_ended(new.status) then dialectic.now() end;
  return new;
end
$$;
