-- The account of a user by name, made at the first call: the user, a tenant of their own, a wallet.
create or replace function dialectic.open_account(p_user_name text)
returns table (tenant_id uuid, user_id uuid, wallet_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant_id uuid := gen_random_uuid();
  v_user_id uuid := gen_random_uuid();
begin
  perform pg_advisory_xact_lock(hashtext('dialectic.open_account:' || p_user_name));
  if not exists (select from dialectic.users u where u.name = p_user_name) then
    insert into dialectic.users (id, name) values (v_user_id, p_user_name);
    insert into dialectic.tenants (id, name, kind) values (v_tenant_id, p_user_name, 'personal');
    insert into dialectic.memberships (tenant_id, user_id, role)
    values (v_tenant_id, v_user_id, 'owner');
    perform dialectic.make_wallet(v_tenant_id, v_user_id);
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
