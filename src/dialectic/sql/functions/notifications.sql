-- News: one way in, one way out.

-- News of a session goes to whoever owns it, unless another user is named. Always written by the
-- owner, also because a statement that two roles take turns at is planned anew at every turn.
create or replace function dialectic.create_notification_for_user(
  p_tenant_id uuid, p_target_user_id uuid, p_notification_type text, p_notification_data jsonb,
  p_title text default null, p_message text default null, p_link_path text default null,
  p_is_internal_event boolean default false, p_session_id uuid default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into dialectic.notifications
    (tenant_id, user_id, session_id, type, data, title, message, link_path, is_internal_event)
  values
    (p_tenant_id,
     coalesce(p_target_user_id, (
       select s.user_id from dialectic.dialectic_sessions s
       where s.tenant_id = p_tenant_id and s.id = p_session_id)),
     p_session_id, p_notification_type, p_notification_data, p_title, p_message, p_link_path,
     p_is_internal_event);
end
$$;

-- Events of a session drive views; they are not messages. For functions of the owner.
create or replace function dialectic.notify_session(
  p_tenant_id uuid, p_session_id uuid, p_type text, p_data jsonb
) returns void
language sql
as $$
  select dialectic.create_notification_for_user(
    p_tenant_id, null, p_type, p_data, p_is_internal_event => true, p_session_id => p_session_id)
$$;

-- The same for everyone else: an event of a session of the current tenant.
create or replace function dialectic.announce(p_session_id uuid, p_type text, p_data jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.notify_session(dialectic.current_tenant(), p_session_id, p_type, p_data);
end
$$;

-- What an event of a job names, whatever it tells of it.
create or replace function dialectic.name_job(p_job dialectic.dialectic_generation_jobs) returns jsonb
language sql stable
as $$
  select jsonb_build_object(
    'sessionId', p_job.session_id, 'stageSlug', p_job.stage_slug,
    'iterationNumber', p_job.iteration_number, 'job_id', p_job.id)
$$;

-- Everything after a number, in order. Rows that have none yet get theirs here, under the lock of
-- the tenant's counter: what commits later is numbered later, so nobody skips it.
create or replace function dialectic.read_notifications(
  p_after_seq bigint, p_session_id uuid, p_limit integer
) returns setof dialectic.notifications
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant_id uuid := dialectic.current_tenant();
  v_last bigint;
begin
  if exists (
    select from dialectic.notifications n where n.tenant_id = v_tenant_id and n.seq is null
  ) then
    insert into dialectic.notification_counters as c (tenant_id, last_seq) values (v_tenant_id, 0)
    on conflict (tenant_id) do update set last_seq = c.last_seq
    returning last_seq into v_last;
    with numbered as (
      update dialectic.notifications n
      set seq = v_last + u.nth
      from (
        select id, row_number() over (order by id) as nth
        from dialectic.notifications
        where tenant_id = v_tenant_id and seq is null
      ) u
      where n.tenant_id = v_tenant_id and n.id = u.id
      returning n.seq
    )
    update dialectic.notification_counters c
    set last_seq = greatest(c.last_seq, (select coalesce(max(seq), v_last) from numbered))
    where c.tenant_id = v_tenant_id;
  end if;
  return query
    select n.* from dialectic.notifications n
    where n.tenant_id = v_tenant_id and n.seq > p_after_seq
      and (p_session_id is null or n.session_id = p_session_id)
    order by n.seq
    limit p_limit;
end
$$;
