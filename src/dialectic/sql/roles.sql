-- The three roles, made before anything else and harmless to run again.
-- owner   owns every table and every function that must see across tenants; nobody logs in as it
-- app     serves people: command line and API
-- worker  runs jobs, and is the only one that reads the queue
-- Neither app nor worker owns a table or bypasses row-level security.
do $$
declare
  v_role text;
begin
  -- Two first starts on one cluster may meet here; the loser of the race finds the role made.
  perform pg_advisory_xact_lock(hashtext('dialectic.roles'));
  foreach v_role in array array['dialectic_owner', 'dialectic_app', 'dialectic_worker'] loop
    if not exists (select from pg_roles where rolname = v_role) then
      execute format('create role %I nosuperuser nobypassrls nocreatedb nocreaterole noinherit', v_role);
    end if;
    if not pg_has_role(current_user, v_role, 'member') then
      execute format('grant %I to current_user', v_role);
    end if;
  end loop;
end
$$;
