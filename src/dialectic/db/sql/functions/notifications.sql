-- Events and notifications: the only functions that write and read them.

-- An event of a session goes to the session's user, unless another user is named. A message with a
-- cause is written once until the cause is resolved. The insert always runs as the owner role:
-- PostgreSQL replans a statement each time another role executes it.
create or replace function dialectic.create_notification_for_user(
  p_tenant_id uuid, p_target_user_id uuid, p_notification_type text, p_notification_data jsonb,
  p_title text default null, p_message text default null, p_link_path text default null,
  p_is_internal_event boolean default false, p_session_id uuid default null,
  p_remedy jsonb default null, p_cause text default null, p_is_read boolean default false
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_user_id uuid := coalesce(p_target_user_id, (
    select s.user_id from dialectic.dialectic_sessions s
    where s.tenant_id = p_tenant_id and s.id = p_session_id));
begin
  if p_cause is not null then
    perform dialectic.lock_cause(p_tenant_id, p_cause);
    if exists (
      select from dialectic.notifications n
      where n.tenant_id = p_tenant_id and n.cause = p_cause and n.resolved_at is null
        and n.user_id is not distinct from v_user_id
    ) then
      return;
    end if;
  end if;
  insert into dialectic.notifications
    (tenant_id, user_id, session_id, type, data, title, message, link_path, is_internal_event,
     remedy, cause, read_at)
  values
    (p_tenant_id, v_user_id, p_session_id, p_notification_type, p_notification_data, p_title,
     p_message, p_link_path, p_is_internal_event, p_remedy, p_cause,
     case when p_is_read then dialectic.now() end);
  perform dialectic.hint_news();
end
$$;

-- Notify listeners, at most once in 50 ms: commits with a NOTIFY are serialised. A listener polls
-- for a while after it, to find what was not announced itself.
create or replace function dialectic.hint_news() returns void
language plpgsql
as $$
declare
  v_now_ms bigint := extract(epoch from clock_timestamp()) * 1000;
begin
  if v_now_ms - (select last_value from dialectic.news_hints) not between 0 and 49 then
    perform setval('dialectic.news_hints', v_now_ms);
    perform pg_notify('dialectic_news', '');
  end if;
end
$$;

-- Of transactions that tell of one cause or resolve it, the second waits and then sees the first.
-- A transaction takes this lock after all others.
create or replace function dialectic.lock_cause(p_tenant_id uuid, p_cause text) returns void
language sql
as $$
  select pg_advisory_xact_lock(hashtextextended(p_tenant_id || ' ' || p_cause, 0))
$$;

-- A cause is over: its messages need no reader any more, and it may be told of again.
create or replace function dialectic.resolve_cause(p_tenant_id uuid, p_cause text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.lock_cause(p_tenant_id, p_cause);
  update dialectic.notifications n
  set resolved_at = dialectic.now(), read_at = coalesce(n.read_at, dialectic.now())
  where n.tenant_id = p_tenant_id and n.cause = p_cause and n.resolved_at is null;
end
$$;

-- Tell the user of a session something, once per cause, if there is one.
create or replace function dialectic.tell_user(
  p_tenant_id uuid, p_session_id uuid, p_type text, p_title text, p_message text,
  p_remedy jsonb, p_cause text, p_data jsonb default '{}', p_is_read boolean default false
) returns void
language sql
as $$
  select dialectic.create_notification_for_user(
    p_tenant_id, null, p_type, jsonb_build_object('sessionId', p_session_id) || p_data, p_title,
    p_message, '/sessions/' || p_session_id, p_session_id => p_session_id, p_remedy => p_remedy,
    p_cause => p_cause, p_is_read => p_is_read)
$$;

-- The same for other roles: about a session of the current tenant.
create or replace function dialectic.announce_to_user(
  p_session_id uuid, p_type text, p_title text, p_message text, p_remedy jsonb, p_cause text,
  p_data jsonb, p_is_read boolean
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.tell_user(dialectic.current_tenant(), p_session_id, p_type, p_title, p_message,
    p_remedy, p_cause, p_data, p_is_read);
end
$$;

-- A cause of the current tenant is over.
create or replace function dialectic.resolve(p_cause text) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select dialectic.resolve_cause(dialectic.current_tenant(), p_cause)
$$;

-- Record an event of a session (it drives views; it is not a message). For the owner's functions.
create or replace function dialectic.notify_session(
  p_tenant_id uuid, p_session_id uuid, p_type text, p_data jsonb
) returns void
language sql
as $$
  select dialectic.create_notification_for_user(
    p_tenant_id, null, p_type, p_data, p_is_internal_event => true, p_session_id => p_session_id)
$$;

-- The same for other roles: an event of a session of the current tenant.
create or replace function dialectic.announce(p_session_id uuid, p_type text, p_data jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.notify_session(dialectic.current_tenant(), p_session_id, p_type, p_data);
end
$$;

-- The fields that every event of a job has.
create or replace function dialectic.name_job(p_job dialectic.dialectic_generation_jobs) returns jsonb
language sql stable
as $$
  select jsonb_build_object(
    'sessionId', p_job.session_id, 'stageSlug', p_job.stage_slug,
    'iterationNumber', p_job.iteration_number, 'job_id', p_job.id)
$$;

-- Number the committed rows that have no number yet, under the lock of the tenant's counter: a
-- later commit gets a later number, so no reader skips it. For the owner's functions. Rows are
-- updated one by one through a cursor: with stale statistics, a join could compare every row of a
-- burst with every other.
create or replace function dialectic.number_notifications(p_tenant_id uuid) returns void
language plpgsql
as $$
declare
  v_last bigint;
  v_news cursor for
    select n.id from dialectic.notifications n
    where n.tenant_id = p_tenant_id and n.seq is null
    order by n.id
    limit 5000  -- the next caller numbers the rest: this keeps each wait short
    for update;
begin
  if not exists (
    select from dialectic.notifications n where n.tenant_id = p_tenant_id and n.seq is null
  ) then
    return;
  end if;
  insert into dialectic.notification_counters as c (tenant_id, last_seq) values (p_tenant_id, 0)
  on conflict (tenant_id) do update set last_seq = c.last_seq
  returning last_seq into v_last;
  for v_new in v_news loop
    v_last := v_last + 1;
    update dialectic.notifications set seq = v_last where current of v_news;
  end loop;
  update dialectic.notification_counters c set last_seq = v_last where c.tenant_id = p_tenant_id;
end
$$;

-- The events after a number, in order, with the highest number given and the highest number pruned,
-- in one snapshot. Always returns a row; without events it holds only those two numbers.
create or replace function dialectic.read_events(
  p_after_seq bigint, p_session_id uuid, p_limit integer
) returns table (
  last_seq bigint, pruned_seq bigint, seq bigint, id bigint, user_id uuid, session_id uuid, type text,
  title text, message text, link_path text, remedy jsonb, data jsonb, is_internal_event boolean,
  created_at timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant_id uuid := dialectic.current_tenant();
begin
  perform dialectic.number_notifications(v_tenant_id);
  return query
    select coalesce(c.last_seq, 0), coalesce(c.pruned_seq, 0), n.seq, n.id, n.user_id, n.session_id,
      n.type, n.title, n.message, n.link_path, n.remedy, n.data, n.is_internal_event, n.created_at
    from (values (true)) as always (is_there)
    left join dialectic.notification_counters c on c.tenant_id = v_tenant_id
    left join lateral (
      select * from dialectic.notifications m
      where m.tenant_id = v_tenant_id and m.seq > p_after_seq
        and (p_session_id is null or m.session_id = p_session_id)
      order by m.seq
      limit p_limit
    ) n on true
    order by n.seq;
end
$$;

-- Which of these tenants have events after their last known number. Reveals nothing else.
create or replace function dialectic.list_news(p_tenant_ids uuid[], p_seqs bigint[])
returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select known.tenant_id
  from unnest(p_tenant_ids, p_seqs) as known (tenant_id, seq)
  where exists (
    select from dialectic.notifications n where n.tenant_id = known.tenant_id and n.seq is null
  ) or exists (
    select from dialectic.notification_counters c
    where c.tenant_id = known.tenant_id and c.last_seq > known.seq
  )
$$;

-- Delete events of all tenants that are older than an age or exceed the maximum per tenant; return
-- how many. A message to a user stays until it is read. Rows without a number get one first, so
-- that a client that was away for that long learns that events are gone.
create or replace function dialectic.prune_notifications(
  p_age interval, p_kept integer, p_limit integer
) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
-- Usually the first row read is young enough; other plans would read and sort all rows.
set enable_seqscan = off
as $$
declare
  v_tenant_id uuid;
  v_last bigint;
  v_row record;
  v_ids bigint[];
  v_top bigint;
  v_count integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('dialectic.prune_notifications')) then
    return 0;
  end if;
  delete from dialectic.dialectic_removals r where r.removed_at < dialectic.now() - p_age;
  for v_tenant_id in select t.id from dialectic.tenants t order by t.id loop
    perform dialectic.number_notifications(v_tenant_id);
    select c.last_seq into v_last from dialectic.notification_counters c
    where c.tenant_id = v_tenant_id;
    v_ids := '{}';
    -- In the order of numbers, which is roughly by age: stop at the first that is young enough.
    for v_row in
      select n.id, n.seq, n.created_at
      from dialectic.notifications n
      where n.tenant_id = v_tenant_id and n.seq is not null
        and (n.is_internal_event or n.read_at is not null)
      order by n.seq
      limit p_limit - v_count
    loop
      exit when v_row.created_at >= dialectic.now() - p_age and v_row.seq > v_last - p_kept;
      v_ids := array_append(v_ids, v_row.id);
      v_top := v_row.seq;
      v_count := v_count + 1;
    end loop;
    if v_ids <> '{}' then
      update dialectic.notification_counters c set pruned_seq = greatest(c.pruned_seq, v_top)
      where c.tenant_id = v_tenant_id;
      delete from dialectic.notifications n
      where n.tenant_id = v_tenant_id and n.id = any (v_ids);
    end if;
    exit when v_count >= p_limit;
  end loop;
  return v_count;
end
$$;
