-- What fires when, who may do what, and who sees which rows. Applied after the functions, each time
-- they change, so a new table is under row-level security from the moment it exists.

create or replace trigger jobs_guard
  before insert or update on dialectic.dialectic_generation_jobs
  for each row execute function dialectic.job_guard();
create or replace trigger jobs_begun
  after insert on dialectic.dialectic_generation_jobs
  for each row execute function dialectic.job_moved();
create or replace trigger jobs_moved
  after update on dialectic.dialectic_generation_jobs
  for each row when (old.status <> new.status) execute function dialectic.job_moved();
create or replace trigger wallet_transactions_never_change
  before update or delete on dialectic.token_wallet_transactions
  for each row execute function dialectic.refuse_change();

-- Row-level security: four policies per table, one per command, all with the same test. The
-- sub-select is evaluated once per query. Enabled, not forced: the owner's functions must see all
-- tenants, and nobody logs in as the owner.
do $$
declare
  v_table text;
  v_test text;
begin
  for v_table, v_test in
    select c.relname,
      case c.relname
        when 'tenants' then 'id = (select dialectic.current_tenant())'
        when 'users' then 'exists (select from dialectic.memberships m where m.user_id = users.id'
          || ' and m.tenant_id = (select dialectic.current_tenant()))'
        else 'tenant_id = (select dialectic.current_tenant())'
      end
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'dialectic' and c.relkind = 'r'
      and (c.relname in ('tenants', 'users') or exists (
        select from pg_attribute a
        where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped))
  loop
    execute format('alter table dialectic.%I enable row level security', v_table);
    execute format('drop policy if exists tenant_select on dialectic.%I', v_table);
    execute format('drop policy if exists tenant_insert on dialectic.%I', v_table);
    execute format('drop policy if exists tenant_update on dialectic.%I', v_table);
    execute format('drop policy if exists tenant_delete on dialectic.%I', v_table);
    execute format('create policy tenant_select on dialectic.%I for select using (%s)', v_table, v_test);
    execute format('create policy tenant_insert on dialectic.%I for insert with check (%s)', v_table, v_test);
    execute format('create policy tenant_update on dialectic.%I for update using (%s) with check (%s)', v_table, v_test, v_test);
    execute format('create policy tenant_delete on dialectic.%I for delete using (%s)', v_table, v_test);
  end loop;
end
$$;

-- Rights. Functions are closed to everyone and then opened by name.
revoke all on all functions in schema dialectic from public, dialectic_app, dialectic_worker;
revoke all on schema queue from public;
grant usage on schema dialectic to dialectic_app, dialectic_worker;
grant execute on function dialectic.now(), dialectic.current_tenant(),
  dialectic.is_runnable(dialectic.dialectic_job_status), dialectic.is_ended(dialectic.dialectic_job_status),
  dialectic.error_entry(integer, text, text),
  dialectic.announce(uuid, text, jsonb),
  dialectic.read_notifications(bigint, uuid, integer)
  to dialectic_app, dialectic_worker;
grant execute on function dialectic.open_account(text) to dialectic_app;
grant execute on function
  dialectic.claim_jobs(uuid[], uuid[], text, interval, interval, integer),
  dialectic.extend_leases(uuid[], uuid[], integer[], interval),
  dialectic.sweep_jobs(interval, integer),
  dialectic.list_waiting_files(interval, integer)
  to dialectic_worker;
grant select, insert, update, delete on all tables in schema dialectic to dialectic_app, dialectic_worker;
revoke insert, update, delete on
  dialectic.schema_migrations, dialectic.dialectic_job_moves, dialectic.tenants, dialectic.users,
  dialectic.memberships, dialectic.notification_counters
  from dialectic_app, dialectic_worker;
revoke delete on dialectic.dialectic_generation_jobs from dialectic_worker;
grant usage on schema queue to dialectic_worker;
grant select, insert, update, delete on all tables in schema queue to dialectic_worker;
grant usage on all sequences in schema queue to dialectic_worker;
