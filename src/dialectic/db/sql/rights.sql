-- Grants. Reapplied after the functions whenever any of them changes.

-- Revoke all functions, then grant each by name.
revoke all on all functions in schema dialectic from public, dialectic_app, dialectic_worker;
revoke all on schema queue from public;
grant usage on schema dialectic to dialectic_app, dialectic_worker;
grant execute on function dialectic.now(), dialectic.current_tenant(), dialectic.act_for(uuid),
  dialectic.is_runnable(dialectic.dialectic_job_status), dialectic.is_ended(dialectic.dialectic_job_status),
  dialectic.is_under_way(uuid, uuid, integer),
  dialectic.error_entry(integer, text, text, jsonb, jsonb, jsonb),
  dialectic.announce(uuid, text, jsonb),
  dialectic.announce_to_user(uuid, text, text, text, jsonb, text, jsonb, boolean),
  dialectic.begin_stage(uuid, integer, text), dialectic.resolve(text),
  dialectic.read_events(bigint, uuid, integer),
  dialectic.list_news(uuid[], bigint[]),
  dialectic.list_changed_tenants(uuid[], text[]), dialectic.is_newer(xid8, pg_snapshot),
  dialectic.mark_files_written(uuid, text[], text[]),
  dialectic.put_resources(uuid, uuid, uuid, jsonb),
  dialectic.allow_probes(uuid), dialectic.list_endpoints(),
  dialectic.add_tallies(text[], bigint[]),
  dialectic.list_read_versions(uuid, uuid[], uuid[]),
  dialectic.match_dialectic_chunks(uuid, uuid, uuid[], text, vector, text, real, integer, integer)
  to dialectic_app, dialectic_worker;
-- Money functions that a model call needs.
grant execute on function
  dialectic.reserve_funds(uuid, numeric, text, uuid, boolean, text, text, uuid, text, uuid, integer,
    bigint, numeric, numeric, bigint, bigint),
  dialectic.settle_hold(text, bigint, bigint, text, boolean, jsonb, text[], uuid, text),
  dialectic.void_hold(text), dialectic.lose_hold(text),
  dialectic.load_funds(uuid, uuid, uuid, boolean), dialectic.read_funds(uuid, uuid, uuid, boolean)
  to dialectic_app, dialectic_worker;
-- Rate-limit functions that a model call needs, from a job or from a chat.
grant execute on function
  dialectic.admit_call(text, uuid, uuid, integer, integer, integer, integer, bigint, interval, integer),
  dialectic.report_call(text, uuid, uuid, integer, text, text, interval, integer, integer, bigint, integer)
  to dialectic_app, dialectic_worker;
grant execute on function dialectic.make_description_due(uuid, uuid)
  to dialectic_app, dialectic_worker;
-- Drafts: workers write them, the app reads them and says who watches.
grant execute on function dialectic.watch_drafts(uuid[], uuid[], interval),
  dialectic.read_drafts(uuid[], uuid[], uuid[], integer[], integer[], integer[], text[], integer)
  to dialectic_app;
grant execute on function
  dialectic.write_drafts(uuid[], uuid[], integer[], integer[], text[], integer[], text[], integer[],
    interval[]),
  dialectic.sweep_drafts()
  to dialectic_worker;
grant execute on function dialectic.load_figures() to dialectic_app;
-- The lock of a session: actions hold it alone, and so does a worker that decides after a stage
-- whether a session goes on; workers share it when they save.
grant execute on function dialectic.name_session_lock(uuid), dialectic.hold_session(uuid)
  to dialectic_app, dialectic_worker;
grant execute on function
  dialectic.hold_lease(uuid, integer, uuid), dialectic.hold_plan(uuid, integer, uuid),
  dialectic.list_unjudged(integer), dialectic.wait_after_stage(uuid, integer, text)
  to dialectic_worker;
grant execute on function
  dialectic.drop_seat(uuid, integer, integer), dialectic.settle_stages(uuid, integer)
  to dialectic_app;
-- Users, tokens, organisations and idempotency keys.
grant execute on function
  dialectic.open_account(text, boolean), dialectic.add_account(text), dialectic.find_account(text),
  dialectic.list_users(), dialectic.find_token(bytea, integer), dialectic.has_tokens(),
  dialectic.list_ended_tokens(uuid[], uuid[]),
  dialectic.create_organization(uuid, text), dialectic.set_member(uuid, text, text),
  dialectic.remove_member(uuid, uuid), dialectic.list_tenants(uuid),
  dialectic.find_share(bytea),
  dialectic.clock(), dialectic.claim_key(uuid, text, bytea, uuid, uuid, interval)
  to dialectic_app;
grant execute on function dialectic.sweep_access(interval, integer) to dialectic_worker;
-- Workers spend money; only the app adds it.
grant execute on function dialectic.open_wallet(uuid),
  dialectic.fund_wallet(uuid, boolean, text, bigint, text, uuid, text),
  dialectic.set_wallet_count_only(uuid, boolean),
  dialectic.limit_wallet(uuid, bigint, text, uuid),
  dialectic.set_session_budget(uuid, bigint)
  to dialectic_app;
grant execute on function
  dialectic.save_document(uuid, integer, uuid, uuid, uuid, jsonb, text, text[], text[], text[],
    bytea[], jsonb),
  dialectic.claim_jobs(uuid[], uuid[], text, interval, interval, integer, boolean),
  dialectic.extend_leases(uuid[], uuid[], integer[], interval),
  dialectic.list_taken(uuid[], uuid[], integer[]),
  dialectic.list_lanes(), dialectic.find_due(text[]),
  dialectic.take_messages(uuid, uuid, text[], integer[], interval),
  dialectic.find_session_due(uuid, uuid, text[]),
  dialectic.sweep_jobs(interval, integer),
  dialectic.sweep_holds(interval, integer),
  dialectic.watch_funds(uuid, boolean),
  dialectic.turn_away_jobs(uuid[], uuid[], interval, integer),
  dialectic.rerun_needed(uuid, uuid),
  dialectic.take_waiting_files(interval, interval, integer),
  dialectic.take_discarded_files(interval, integer),
  dialectic.prune_notifications(interval, integer, integer)
  to dialectic_worker;
grant select, insert, update, delete on all tables in schema dialectic to dialectic_app, dialectic_worker;
revoke insert, update, delete on
  dialectic.schema_migrations, dialectic.dialectic_job_moves, dialectic.dialectic_session_moves,
  dialectic.tenants, dialectic.users, dialectic.memberships, dialectic.notification_counters,
  dialectic.token_wallets, dialectic.token_wallet_holds, dialectic.token_wallet_transactions,
  dialectic.dialectic_session_spending, dialectic.dialectic_removals
  from dialectic_app, dialectic_worker;
-- Roles change by functions alone; how a member wants the pages is the member's own.
grant update (preferences) on dialectic.memberships to dialectic_app;
revoke delete on dialectic.dialectic_generation_jobs from dialectic_worker;
revoke insert, update, delete on dialectic.dialectic_drafts, dialectic.dialectic_draft_watches
  from dialectic_app, dialectic_worker;
-- Endpoint state belongs to no tenant: only functions access it.
revoke all on dialectic.dialectic_endpoints, dialectic.dialectic_endpoint_calls
  from dialectic_app, dialectic_worker;
-- The same holds for request buckets and counters. Workers do not need tokens or keys.
revoke all on dialectic.request_buckets, dialectic.dialectic_tallies
  from dialectic_app, dialectic_worker;
revoke all on dialectic.access_tokens, dialectic.idempotency_keys, dialectic.dialectic_shares
  from dialectic_worker;
-- Workers use tenants' own endpoints; only the app changes them.
revoke insert, update, delete on dialectic.tenant_endpoints from dialectic_worker;
-- Chunks are immutable.
revoke update on dialectic.dialectic_chunks from dialectic_app, dialectic_worker;
-- The id of the store is fixed; its last known place may change.
revoke update, delete on dialectic.dialectic_storage from dialectic_app, dialectic_worker;
grant update (place) on dialectic.dialectic_storage to dialectic_app, dialectic_worker;
grant usage on schema queue to dialectic_worker;
grant select, insert, update, delete on all tables in schema queue to dialectic_worker;
grant usage on all sequences in schema queue to dialectic_worker;
