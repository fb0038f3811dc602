-- Take files whose bytes are not in storage yet, across tenants, to finish what another worker left
-- when it died. Taking notes the time: others take other files meanwhile, and one that cannot be
-- written goes behind all that were not tried for longer.
create or replace function dialectic.take_waiting_files(
  p_older_than interval, p_again_after interval, p_limit integer
) returns table (tenant_id uuid, path text)
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  update dialectic.dialectic_files f
  set tried_at = dialectic.now()
  from (
    select w.tenant_id, w.path
    from dialectic.dialectic_files w
    where w.written_at is null and w.created_at <= dialectic.now() - p_older_than
      and (w.tried_at is null or w.tried_at <= dialectic.now() - p_again_after)
    order by w.tried_at nulls first, w.created_at
    limit p_limit
    for no key update skip locked
  ) free
  where f.tenant_id = free.tenant_id and f.path = free.path
  returning f.tenant_id, f.path
$$;
