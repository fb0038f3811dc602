-- Trigger after a job row was written: remove the draft of an attempt that has ended, enqueue a
-- runnable job, or update the jobs that waited for an ended one. All of it happens in the
-- transaction that moved the job.
create or replace function dialectic.job_moved() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'jobs change status only under read committed: a fixed snapshot would lose wake-ups'
      using errcode = 'DJ002', constraint = 'jobs_move_under_read_committed';
  end if;
  if tg_op = 'UPDATE' and old.status = 'processing' then
    delete from dialectic.dialectic_drafts d
    where d.tenant_id = new.tenant_id and d.job_id = new.id;
  end if;
  if dialectic.is_runnable(new.status) then
    perform dialectic.dispatch(new);
  elsif dialectic.is_ended(new.status) then
    perform dialectic.handle_job_completion(new);
  elsif new.status = 'waiting_for_children' then
    perform dialectic.wake_parent(new.tenant_id, new.id);
    perform dialectic.poke_siblings(new);
  end if;
  return null;
end
$$;
