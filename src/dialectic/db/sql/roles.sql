-- The three roles, made before anything else and harmless to run again.
-- owner   owns every table and every function that must see across tenants; nobody logs in as it
-- app     serves people: command line and API
-- worker  runs jobs, and is the only one that reads the queue
-- Neither app nor worker owns a table or bypasses row-level security.
do $$
declare
  v_role text;
  -- From version 16 on, whoever makes a role is a member of it without being able to take it on.
  v_needed text := case
    when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member'
  end;
begin
  foreach v_role in array array['dialectic_owner', 'dialectic_app', 'dialectic_worker'] loop
    -- First starts in two databases of one cluster may meet here, and no lock spans databases; the
    -- loser of the race finds the role made.
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
