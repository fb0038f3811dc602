-- Accounts: a user, a personal tenant, a wallet. User names are unique across all tenants.

create or replace function dialectic.find_account(p_user_name text)
returns table (tenant_id uuid, user_id uuid, wallet_id uuid)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select m.tenant_id, m.user_id, w.id
  from dialectic.users u
  join dialectic.memberships m on m.user_id = u.id and m.role = 'owner'
  join dialectic.tenants t on t.id = m.tenant_id and t.kind = 'personal'
  join dialectic.token_wallets w on w.tenant_id = m.tenant_id and w.user_id = m.user_id
  where u.name = p_user_name
$$;

-- For the owner's functions: create an account; say whether it is new.
create or replace function dialectic.make_account(p_user_name text) returns boolean
language plpgsql
as $$
declare
  v_tenant_id uuid := gen_random_uuid();
  v_user_id uuid := gen_random_uuid();
begin
  perform pg_advisory_xact_lock(hashtext('dialectic.open_account:' || p_user_name));
  if exists (select from dialectic.users u where u.name = p_user_name) then
    return false;
  end if;
  insert into dialectic.users (id, name) values (v_user_id, p_user_name);
  insert into dialectic.tenants (id, name, kind) values (v_tenant_id, p_user_name, 'personal');
  insert into dialectic.memberships (tenant_id, user_id, role)
  values (v_tenant_id, v_user_id, 'owner');
  perform dialectic.make_wallet(v_tenant_id, v_user_id);
  return true;
end
$$;

-- Open the account of a user by name; the first call creates it, and says whether its wallet only
-- counts.
create or replace function dialectic.open_account(p_user_name text, p_is_count_only boolean)
returns table (tenant_id uuid, user_id uuid, wallet_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if dialectic.make_account(p_user_name) and p_is_count_only then
    update dialectic.token_wallets w
    set is_count_only = true
    from dialectic.find_account(p_user_name) a
    where w.tenant_id = a.tenant_id and w.id = a.wallet_id;
  end if;
  return query select a.* from dialectic.find_account(p_user_name) a;
end
$$;

-- Create an account; raise if the name is taken.
create or replace function dialectic.add_account(p_user_name text)
returns table (tenant_id uuid, user_id uuid, wallet_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if not dialectic.make_account(p_user_name) then
    raise exception 'User % already exists', p_user_name
      using errcode = 'DJ003', constraint = 'user_name_is_free';
  end if;
  return query select a.* from dialectic.find_account(p_user_name) a;
end
$$;

-- For the operator: every user, and the number of their valid tokens.
create or replace function dialectic.list_users()
returns table (name text, created_at timestamptz, tokens bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select u.name, u.created_at, (
    select count(*) from dialectic.access_tokens t
    where t.user_id = u.id and t.kind = 'api' and t.revoked_at is null
      and t.expires_at > dialectic.now())
  from dialectic.users u
  order by u.created_at, u.name
$$;
