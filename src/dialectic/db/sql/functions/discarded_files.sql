-- Take files of deleted projects that are due, across tenants, to finish the work of a process that
-- died. Taking a file postpones its next turn: other processes take other files, and a file that
-- cannot be deleted goes to the end of the line.
create or replace function dialectic.take_discarded_files(p_again_after interval, p_limit integer)
returns table (tenant_id uuid, path text)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with due as (
    select d.tenant_id, d.path
    from dialectic.dialectic_discarded_files d
    where d.due_at <= dialectic.now()
    order by d.due_at
    limit p_limit
    for no key update skip locked
  )
  update dialectic.dialectic_discarded_files f
  set due_at = dialectic.now() + p_again_after
  from due
  where f.tenant_id = due.tenant_id and f.path = due.path
  returning f.tenant_id, f.path
$$;
