-- Authentication. Called before the tenant is known: reads all tenants, returns rows of one.

-- Find the token with this hash unless it was revoked, and count one request against its rate
-- limit: wait_s is 0, or how long its bucket stays full. A burst of one minute's requests is
-- allowed. The time of an index lookup depends on the hash. An attacker cannot choose a hash close
-- to another one, so the timing reveals nothing about a secret.
create or replace function dialectic.find_token(
  p_secret_sha256 bytea, p_requests_per_minute integer
)
returns table (
  tenant_id uuid, user_id uuid, token_id uuid, kind text, scopes text[], expires_at timestamptz,
  is_expired boolean, wait_s double precision
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_token dialectic.access_tokens;
  v_end timestamptz;
  v_now timestamptz := dialectic.clock();
begin
  select t.* into v_token from dialectic.access_tokens t
  where t.secret_sha256 = p_secret_sha256 and t.revoked_at is null;
  if not found then
    return;
  end if;
  v_end := v_token.expires_at;
  if v_token.kind = 'browser' then
    select least(v_end, r.expires_at) into v_end from dialectic.access_tokens r
    where r.tenant_id = v_token.stands_for_tenant_id and r.id = v_token.stands_for_token_id
      and r.revoked_at is null;
    if not found then
      return;
    end if;
  end if;
  return query
    select v_token.tenant_id, v_token.user_id, v_token.id, v_token.kind, v_token.scopes, v_end,
      v_end <= v_now,
      case when v_end <= v_now then 0.0
        else dialectic.fill_bucket(v_token.id, p_requests_per_minute, v_now) end;
  if v_end > v_now and coalesce(v_token.last_used_at < v_now - interval '5 minutes', true) then
    perform dialectic.note_use(v_token.tenant_id, v_token.id, v_now);
  end if;
end
$$;

-- For `find_token`: add one request to a bucket, or return for how many seconds it stays full.
create or replace function dialectic.fill_bucket(
  p_token_id uuid, p_requests_per_minute integer, p_now timestamptz
) returns double precision
language plpgsql
as $$
declare
  v_step interval := make_interval(secs => 60.0 / p_requests_per_minute);
  v_until timestamptz;
begin
  insert into dialectic.request_buckets as b (token_id, filled_until)
  values (p_token_id, p_now + v_step)
  on conflict (token_id) do update set filled_until = greatest(b.filled_until, p_now) + v_step
  where greatest(b.filled_until, p_now) + v_step <= p_now + interval '1 minute';
  if found then
    return 0.0;
  end if;
  select b.filled_until into v_until from dialectic.request_buckets b where b.token_id = p_token_id;
  return extract(epoch from v_until + v_step - p_now - interval '1 minute');
end
$$;

-- For `find_token`: record that a token was used. Of concurrent requests one does. Losing the
-- update in a crash is harmless, so the commit is asynchronous.
create or replace function dialectic.note_use(p_tenant_id uuid, p_id uuid, p_now timestamptz)
returns void
language sql
as $$
  select set_config('synchronous_commit', 'off', true);
  with free as (
    select u.tenant_id, u.id from dialectic.access_tokens u
    where u.tenant_id = p_tenant_id and u.id = p_id
    for no key update skip locked
  )
  update dialectic.access_tokens t set last_used_at = p_now
  from free
  where t.tenant_id = free.tenant_id and t.id = free.id
$$;

-- Whether any token exists. Expired tokens count: expiry must not switch authentication off.
create or replace function dialectic.has_tokens() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from dialectic.access_tokens t where t.kind = 'api' and t.revoked_at is null)
$$;

-- Which of these tokens have become invalid: revoked, expired, deleted with their member, or
-- started with a token that did. The id of zeros is the local user, who needs no token until one
-- exists. Reveals nothing else.
create or replace function dialectic.list_ended_tokens(p_tenant_ids uuid[], p_token_ids uuid[])
returns setof uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select shown.token_id
  from unnest(p_tenant_ids, p_token_ids) as shown (tenant_id, token_id)
  where case
    when shown.token_id = '00000000-0000-0000-0000-000000000000' then dialectic.has_tokens()
    else not exists (
      select from dialectic.access_tokens t
      left join dialectic.access_tokens r
        on r.tenant_id = t.stands_for_tenant_id and r.id = t.stands_for_token_id
        and r.revoked_at is null and r.expires_at > dialectic.clock()
      where t.tenant_id = shown.tenant_id and t.id = shown.token_id and t.revoked_at is null
        and t.expires_at > dialectic.clock() and (t.kind <> 'browser' or r.id is not null))
    end
$$;

-- Delete old responses, expired browser sessions and idle buckets of all tenants.
create or replace function dialectic.sweep_access(p_keys_kept interval, p_limit integer)
returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
  v_sum integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('dialectic.sweep_access')) then
    return 0;
  end if;
  -- Keep a key whose request is in progress, however old.
  with old as (
    select i.tenant_id, i.user_id, i.key from dialectic.idempotency_keys i
    where i.created_at < dialectic.now() - p_keys_kept
      and coalesce(i.claimed_until < dialectic.now(), true)
    order by i.created_at limit p_limit
    for update skip locked
  )
  delete from dialectic.idempotency_keys k
  using old
  where k.tenant_id = old.tenant_id and k.user_id = old.user_id and k.key = old.key;
  get diagnostics v_count = row_count;
  v_sum := v_sum + v_count;
  with ended as (
    select s.tenant_id, s.id from dialectic.access_tokens s
    where s.kind = 'browser' and s.expires_at < dialectic.now()
    order by s.expires_at limit p_limit
    for update skip locked
  )
  delete from dialectic.access_tokens t
  using ended
  where t.tenant_id = ended.tenant_id and t.id = ended.id;
  get diagnostics v_count = row_count;
  v_sum := v_sum + v_count;
  with idle as (
    select i.token_id from dialectic.request_buckets i
    where i.filled_until < dialectic.now() - interval '1 hour'
    limit p_limit for update skip locked
  )
  delete from dialectic.request_buckets b
  using idle
  where b.token_id = idle.token_id;
  return v_sum;
end
$$;

-- Find the report that a link leads to, by the hash of its secret; nothing if it has ended.
create or replace function dialectic.find_share(p_secret_sha256 bytea)
returns table (
  tenant_id uuid, share_id uuid, session_id uuid, pass_salt bytea, pass_hash bytea,
  has_drafts boolean, has_names boolean
)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select s.tenant_id, s.id, s.session_id, s.pass_salt, s.pass_hash, s.has_drafts, s.has_names
  from dialectic.dialectic_shares s
  where s.secret_sha256 = p_secret_sha256 and s.expires_at > dialectic.clock()
$$;
