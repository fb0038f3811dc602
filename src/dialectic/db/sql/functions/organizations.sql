-- Organisations: tenants with members. Only these functions write memberships. Each acts for a user
-- of the current tenant and checks that user's role.
--   DJ103 the user or member does not exist · DJ106 the user's role does not allow it
--   DJ003 the organisation would have no owner, or already has the member

-- For the functions here: the role of a user in the current tenant, under a lock that serialises
-- changes of its members.
create or replace function dialectic.lock_members(p_user_id uuid) returns text
language plpgsql
as $$
declare
  v_tenant uuid := dialectic.current_tenant();
  v_kind text;
  v_role text;
begin
  select t.kind into v_kind from dialectic.tenants t where t.id = v_tenant for no key update;
  select m.role into v_role from dialectic.memberships m
  where m.tenant_id = v_tenant and m.user_id = p_user_id;
  if v_role is null then
    raise exception 'user % does not exist', p_user_id
      using errcode = 'DJ103', constraint = 'user_exists';
  end if;
  if v_kind <> 'organization' then
    raise exception 'A personal account has no members'
      using errcode = 'DJ003', constraint = 'only_organizations_have_members';
  end if;
  return v_role;
end
$$;

-- Create an organisation that a user of the current tenant owns; its members share its wallet.
create or replace function dialectic.create_organization(p_user_id uuid, p_name text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid := gen_random_uuid();
begin
  if not exists (
    select from dialectic.memberships m
    where m.tenant_id = dialectic.current_tenant() and m.user_id = p_user_id
  ) then
    raise exception 'user % does not exist', p_user_id
      using errcode = 'DJ103', constraint = 'user_exists';
  end if;
  insert into dialectic.tenants (id, name, kind) values (v_id, p_name, 'organization');
  insert into dialectic.memberships (tenant_id, user_id, role) values (v_id, p_user_id, 'owner');
  perform dialectic.make_wallet(v_id, null);
  return v_id;
end
$$;

-- Add a member, or change a member's role. Admins may add and change members and admins; owners may
-- add and change everyone. Returns the member's id.
create or replace function dialectic.set_member(
  p_acting_user_id uuid, p_user_name text, p_role text
) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := dialectic.current_tenant();
  v_acting text := dialectic.lock_members(p_acting_user_id);
  v_user_id uuid;
  v_before text;
begin
  select u.id into v_user_id from dialectic.users u where u.name = p_user_name;
  if v_user_id is null then
    raise exception 'user % does not exist', p_user_name
      using errcode = 'DJ103', constraint = 'user_exists';
  end if;
  select m.role into v_before from dialectic.memberships m
  where m.tenant_id = v_tenant and m.user_id = v_user_id;
  if v_acting = 'member' or (v_acting = 'admin' and 'owner' in (p_role, coalesce(v_before, ''))) then
    raise exception 'A role of % does not allow this', v_acting
      using errcode = 'DJ106', constraint = 'role_allows_it';
  end if;
  insert into dialectic.memberships as m (tenant_id, user_id, role)
  values (v_tenant, v_user_id, p_role)
  on conflict (tenant_id, user_id) do update set role = excluded.role;
  perform dialectic.check_owner(v_tenant);
  return v_user_id;
end
$$;

-- Remove a member and their tokens. Every member may leave.
create or replace function dialectic.remove_member(p_acting_user_id uuid, p_user_id uuid)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := dialectic.current_tenant();
  v_acting text := dialectic.lock_members(p_acting_user_id);
  v_role text;
begin
  select m.role into v_role from dialectic.memberships m
  where m.tenant_id = v_tenant and m.user_id = p_user_id;
  if v_role is null then
    raise exception 'user % does not exist', p_user_id
      using errcode = 'DJ103', constraint = 'user_exists';
  end if;
  if p_acting_user_id <> p_user_id
    and (v_acting = 'member' or (v_acting = 'admin' and v_role = 'owner')) then
    raise exception 'A role of % does not allow this', v_acting
      using errcode = 'DJ106', constraint = 'role_allows_it';
  end if;
  delete from dialectic.memberships m where m.tenant_id = v_tenant and m.user_id = p_user_id;
  perform dialectic.check_owner(v_tenant);
end
$$;

create or replace function dialectic.check_owner(p_tenant_id uuid) returns void
language plpgsql
as $$
begin
  if not exists (
    select from dialectic.memberships m where m.tenant_id = p_tenant_id and m.role = 'owner'
  ) then
    raise exception 'An organisation needs an owner'
      using errcode = 'DJ003', constraint = 'organization_has_an_owner';
  end if;
end
$$;

-- All tenants that a user of the current one belongs to.
create or replace function dialectic.list_tenants(p_user_id uuid)
returns table (id uuid, name text, kind text, role text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select t.id, t.name, t.kind, m.role
  from dialectic.memberships m
  join dialectic.tenants t on t.id = m.tenant_id
  where m.user_id = p_user_id and exists (
    select from dialectic.memberships here
    where here.user_id = p_user_id and here.tenant_id = dialectic.current_tenant())
  order by t.kind desc, t.created_at, t.id
$$;
