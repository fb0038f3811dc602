-- The three roles, created first; idempotent.
-- owner   owns every table and every function that must see all tenants; has no login
-- app     serves users: command line and API
-- worker  runs jobs; the only role that reads the queue
-- Neither app nor worker owns a table or bypasses row-level security.
do $$
declare
  v_role text;
  -- From version 16 on, the creator of a role is a member of it but may not `set role` to it.
  v_needed text := case
    when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member'
  end;
begin
  foreach v_role in array array['dialectic_owner', 'dialectic_app', 'dialectic_worker'] loop
    -- First starts in two databases of one cluster may race here, and no lock spans databases. The
    -- loser finds that the role exists.
    begin
      if not exists (select from pg_roles where rolname = v_role) then
        execute format('create role %I nosuperuser nobypassrls nocreatedb nocreaterole noinherit', v_role);
      end if;
      if not pg_has_role(current_user, v_role, v_needed) then
        execute format('grant %I to current_user', v_role);
      end if;
    exception when duplicate_object or unique_violation then
      execute format('grant %I to current_user', v_role);
    end;
  end loop;
end
$$;
