-- The account of a user by name, made at the first call: the user, a tenant of their own, a wallet.
create or replace function dialectic.open_account(p_user_name text)
returns table (tenant_id uuid, user_id uuid, wallet_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(hashtext('dialectic.open_account:' || p_user_name));
  if not exists (select from dialectic.users u where u.name = p_user_name) then
    with made_user as (
      insert into dialectic.users (id, name) values (gen_random_uuid(), p_user_name) returning id
    ), made_tenant as (
      insert into dialectic.tenants (id, name, kind)
      values (gen_random_uuid(), p_user_name, 'personal') returning id
    ), made_membership as (
      insert into dialectic.memberships (tenant_id, user_id, role)
      select t.id, u.id, 'owner' from made_tenant t, made_user u
    )
    insert into dialectic.token_wallets (tenant_id, id, user_id)
    select t.id, gen_random_uuid(), u.id from made_tenant t, made_user u;
  end if;
  return query
    select m.tenant_id, m.user_id, w.id
    from dialectic.users u
    join dialectic.memberships m on m.user_id = u.id and m.role = 'owner'
    join dialectic.token_wallets w on w.tenant_id = m.tenant_id and w.user_id = m.user_id
    where u.name = p_user_name
    order by m.created_at
    limit 1;
end
$$;
