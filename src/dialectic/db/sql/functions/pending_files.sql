-- Take files whose bytes are not in storage yet, across tenants, to finish the work of a worker
-- that died. Taking a file records the time: other workers take other files, and a file that cannot
-- be written goes to the end of the line.
create or replace function dialectic.take_waiting_files(
  p_older_than interval, p_again_after interval, p_limit integer
) returns table (tenant_id uuid, path text)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with free as (
    select w.tenant_id, w.path
    from dialectic.dialectic_files w
    where w.written_at is null and w.created_at <= dialectic.now() - p_older_than
      and (w.tried_at is null or w.tried_at <= dialectic.now() - p_again_after)
    order by w.tried_at nulls first, w.created_at
    limit p_limit
    for no key update skip locked
  )
  update dialectic.dialectic_files f
  set tried_at = dialectic.now()
  from free
  where f.tenant_id = free.tenant_id and f.path = free.path
  returning f.tenant_id, f.path
$$;

-- Mark files as written to storage and drop their bytes. Files that were replaced during the write
-- become due again and are returned: storage may have the older bytes. Commits are asynchronous: a
-- crash only causes the same bytes to be written again.
-- Rows are updated one by one by key. With a join, or a predicate on the waiting state, the planner
-- could scan all files of the tenant or all waiting files.
create or replace function dialectic.mark_files_written(
  p_tenant_id uuid, p_paths text[], p_hashes text[]
) returns setof text
language plpgsql
as $$
begin
  perform dialectic.act_for(p_tenant_id);
  perform set_config('synchronous_commit', 'off', true);
  for v_nth in 1 .. cardinality(p_paths) loop
    update dialectic.dialectic_files f
    set content = null, written_at = dialectic.now(), tried_at = null
    where f.tenant_id = p_tenant_id and f.path = p_paths[v_nth] and f.sha256 = p_hashes[v_nth]
      and f.content is not null;
    if not found then
      return query
        update dialectic.dialectic_files f
        set content = convert_to(r.content, 'UTF8'), written_at = null
        from dialectic.dialectic_project_resources r
        where f.tenant_id = p_tenant_id and f.path = p_paths[v_nth] and f.sha256 <> p_hashes[v_nth]
          and r.tenant_id = p_tenant_id and r.storage_path = p_paths[v_nth]
        returning f.path;
    end if;
  end loop;
end
$$;
