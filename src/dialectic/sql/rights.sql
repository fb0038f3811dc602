-- Who may do what. Applied after the functions, each time any of them changes.

-- What earlier versions had and this one has not.
drop function if exists dialectic.turn_away(uuid, uuid, interval, integer);
drop function if exists dialectic.claim_jobs(uuid[], uuid[], text, interval, interval, integer);
drop function if exists dialectic.list_waiting_files(interval, integer);

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
  dialectic.claim_jobs(uuid[], uuid[], text, interval, interval, integer, boolean),
  dialectic.extend_leases(uuid[], uuid[], integer[], interval),
  dialectic.sweep_jobs(interval, integer),
  dialectic.turn_away_jobs(uuid[], uuid[], interval, integer),
  dialectic.take_waiting_files(interval, interval, integer)
  to dialectic_worker;
grant select, insert, update, delete on all tables in schema dialectic to dialectic_app, dialectic_worker;
revoke insert, update, delete on
  dialectic.schema_migrations, dialectic.dialectic_job_moves, dialectic.tenants, dialectic.users,
  dialectic.memberships, dialectic.notification_counters
  from dialectic_app, dialectic_worker;
revoke delete on dialectic.dialectic_generation_jobs from dialectic_worker;
-- Which store it is, is decided once; where it was last seen may change.
revoke update, delete on dialectic.dialectic_storage from dialectic_app, dialectic_worker;
grant update (place) on dialectic.dialectic_storage to dialectic_app, dialectic_worker;
grant usage on schema queue to dialectic_worker;
grant select, insert, update, delete on all tables in schema queue to dialectic_worker;
grant usage on all sequences in schema queue to dialectic_worker;
