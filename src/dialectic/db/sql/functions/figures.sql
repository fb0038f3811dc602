-- Statistics of all tenants' work: counts only, found by partial indexes.
create or replace function dialectic.load_figures()
returns table (
  open_jobs jsonb, holds_pending bigint, files_waiting bigint, files_discarded bigint,
  events_unnumbered bigint, usages_doubted bigint, overruns bigint, overrun_credits bigint,
  tallies jsonb
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
    (select count(*) from dialectic.dialectic_discarded_files),
    (select count(*) from dialectic.tenants t
      join dialectic.notifications n on n.tenant_id = t.id and n.seq is null),
    (select count(*) from dialectic.token_wallet_holds h where h.reported_usage is not null),
    o.calls, o.credits,
    (select coalesce(jsonb_object_agg(t.name, t.count), '{}') from dialectic.dialectic_tallies t)
  from (
    select count(*) as calls,
      coalesce(sum(w.amount_credits) filter (where not w.is_play), 0)::bigint as credits
    from dialectic.token_wallet_transactions w where w.transaction_type = 'overrun'
  ) o
$$;

-- Add to the counters, in one order, so that two writers cannot deadlock.
create or replace function dialectic.add_tallies(p_names text[], p_counts bigint[])
returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into dialectic.dialectic_tallies as t (name, count)
  select n.name, n.count from unnest(p_names, p_counts) as n (name, count) order by n.name
  on conflict (name) do update set count = t.count + excluded.count
$$;
