-- Changes that followers are told of without an event of their own: which rows changed since a
-- snapshot. A row names the transaction that changed it last (changed_in), so a transaction that
-- commits late is found by every reader whose snapshot did not see it.

-- Trigger before a followed row is written or deleted. What is deleted with the row that it belongs
-- to is not recorded. Readers are woken, except for tables whose changes an event tells of anyway.
create or replace function dialectic.follow_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_nargs > 0 then
    perform dialectic.hint_news();
  end if;
  if tg_op <> 'DELETE' then
    new.changed_in := pg_current_xact_id();
    return new;
  end if;
  if pg_trigger_depth() = 1 then
    insert into dialectic.dialectic_removals (tenant_id, kind, id, session_id, changed_in)
    values (old.tenant_id, tg_argv[0], old.id, (to_jsonb(old) ->> 'session_id')::uuid,
      pg_current_xact_id())
    on conflict (tenant_id, kind, id) do update
    set changed_in = excluded.changed_in, removed_at = dialectic.now();
  end if;
  return old;
end
$$;

-- Trigger after a message was saved: its chat has changed.
create or replace function dialectic.touch_chat() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update dialectic.chats c set changed_in = pg_current_xact_id()
  where c.tenant_id = new.tenant_id and c.id = new.chat_id
    and c.changed_in <> pg_current_xact_id();
  return null;
end
$$;

-- Whether a row's last change is missing from a snapshot. The first test is for the index.
create or replace function dialectic.is_newer(p_changed_in xid8, p_seen pg_snapshot) returns boolean
language sql stable parallel safe
as $$
  select p_changed_in >= pg_snapshot_xmin(p_seen) and not pg_visible_in_snapshot(p_changed_in, p_seen)
$$;

-- Which of these tenants have changes that are missing from their snapshots. Reveals nothing else.
create or replace function dialectic.list_changed_tenants(p_tenant_ids uuid[], p_seen text[])
returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select known.tenant_id
  from (select t.id, s.seen::pg_snapshot
    from unnest(p_tenant_ids, p_seen) as s (id, seen)
    join dialectic.tenants t on t.id = s.id) as known (tenant_id, seen)
  where exists (select from dialectic.dialectic_generation_jobs c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.dialectic_sessions c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.dialectic_contributions c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.dialectic_feedback c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.dialectic_projects c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.chats c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.token_wallets c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
    or exists (select from dialectic.dialectic_removals c
      where c.tenant_id = known.tenant_id and dialectic.is_newer(c.changed_in, known.seen))
$$;
