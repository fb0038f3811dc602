-- Files whose bytes are not in storage yet, oldest first, across tenants. For the worker that
-- finishes what another one left when it died.
create or replace function dialectic.list_waiting_files(p_older_than interval, p_limit integer)
returns table (tenant_id uuid, path text)
language sql stable security definer set search_path = ''
as $$
  select f.tenant_id, f.path
  from dialectic.dialectic_files f
  where f.written_at is null and f.created_at <= dialectic.now() - p_older_than
  order by f.created_at
  limit p_limit
$$;
