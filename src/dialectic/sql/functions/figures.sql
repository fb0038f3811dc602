-- How the work of all tenants stands: figures alone, found by partial indexes.
create or replace function dialectic.load_figures()
returns table (
  open_jobs jsonb, holds_pending bigint, files_waiting bigint, events_unnumbered bigint
)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select
    (select coalesce(jsonb_object_agg(o.status, o.count), '{}') from (
      select j.status::text, count(*) as count from dialectic.dialectic_generation_jobs j
      where j.status not in ('completed', 'failed', 'retry_loop_failed', 'cancelled', 'paused')
      group by j.status) o),
    (select count(*) from dialectic.token_wallet_holds h where h.state = 'pending'),
    (select count(*) from dialectic.dialectic_files f where f.written_at is null),
    (select count(*) from dialectic.notifications n where n.seq is null)
$$;
