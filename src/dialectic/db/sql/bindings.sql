-- Triggers and row-level security policies. Reapplied after the functions when this file or its
-- result in the catalogue has changed, so a new table has row-level security from the start. The
-- migration locks all tables for it.

create or replace trigger sessions_guard
  before insert or update of phase, phase_before_pause, current_stage_slug
  on dialectic.dialectic_sessions
  for each row execute function dialectic.session_guard();
create or replace trigger sessions_moved
  after update on dialectic.dialectic_sessions
  for each row when (
    old.phase <> new.phase or old.phase_before_pause is distinct from new.phase_before_pause)
  execute function dialectic.session_moved();
create or replace trigger jobs_guard
  before insert or update on dialectic.dialectic_generation_jobs
  for each row execute function dialectic.job_guard();
create or replace trigger jobs_begun
  after insert on dialectic.dialectic_generation_jobs
  for each row execute function dialectic.job_moved();
create or replace trigger jobs_moved
  after update on dialectic.dialectic_generation_jobs
  for each row when (old.status <> new.status) execute function dialectic.job_moved();
drop trigger if exists jobs_pause_changed on dialectic.dialectic_generation_jobs;
create constraint trigger jobs_pause_changed
  after update on dialectic.dialectic_generation_jobs deferrable initially deferred
  for each row when ((old.status = 'paused') <> (new.status = 'paused'))
  execute function dialectic.pause_changed();
create or replace trigger wallet_transactions_never_change
  before update or delete on dialectic.token_wallet_transactions
  for each row execute function dialectic.refuse_change();
create or replace trigger wallet_transactions_never_vanish
  before truncate on dialectic.token_wallet_transactions
  for each statement execute function dialectic.refuse_change();
create or replace trigger holds_resolve_once
  before update on dialectic.token_wallet_holds
  for each row execute function dialectic.hold_guard();
drop trigger if exists holds_move_funds on dialectic.token_wallet_holds;
create constraint trigger holds_move_funds
  after update on dialectic.token_wallet_holds deferrable initially deferred
  for each row when (old.resolved_at is null and new.resolved_at is not null)
  execute function dialectic.move_funds();
create or replace trigger endpoints_are_forgotten
  after update or delete on dialectic.tenant_endpoints
  for each row execute function dialectic.forget_endpoint();
create or replace trigger holds_never_vanish
  before delete or truncate on dialectic.token_wallet_holds
  for each statement execute function dialectic.refuse_change();

-- Followed rows: which transaction changed them, and what is gone.
create or replace trigger projects_followed
  before insert or update or delete on dialectic.dialectic_projects
  for each row execute function dialectic.follow_change('project');
create or replace trigger sessions_followed
  before insert or update on dialectic.dialectic_sessions
  for each row execute function dialectic.follow_change('session');
create or replace trigger contributions_followed
  before insert or update on dialectic.dialectic_contributions
  for each row execute function dialectic.follow_change();
create or replace trigger feedback_followed
  before insert or update or delete on dialectic.dialectic_feedback
  for each row execute function dialectic.follow_change('feedback');
create or replace trigger chats_followed
  before insert or update or delete on dialectic.chats
  for each row execute function dialectic.follow_change('chat');
create or replace trigger messages_followed
  after insert or update on dialectic.chat_messages
  for each row execute function dialectic.touch_chat();

-- Row-level security: four policies per table, one per command, all with the same test. The
-- sub-select is evaluated once per query. Enabled, not forced: the owner's functions must see all
-- tenants, and the owner cannot log in.
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
