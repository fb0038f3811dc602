-- Wallets: create, fund, set count-only. Session budgets.

-- Create a wallet of a user, or of the whole tenant, with play money worth 1,000 dollars.
create or replace function dialectic.make_wallet(p_tenant_id uuid, p_user_id uuid) returns uuid
language plpgsql
as $$
declare
  v_id uuid;
begin
  insert into dialectic.token_wallets (tenant_id, id, user_id)
  values (p_tenant_id, gen_random_uuid(), p_user_id)
  on conflict (tenant_id, user_id) do nothing
  returning id into v_id;
  if v_id is null then
    select w.id into v_id from dialectic.token_wallets w
    where w.tenant_id = p_tenant_id and w.user_id is not distinct from p_user_id;
    return v_id;
  end if;
  perform dialectic.put_in(p_tenant_id, v_id, true, 'grant', 1000000000, 'play money',
    p_user_id, 'play money to begin with');
  return v_id;
end
$$;

-- Open the wallet of a user of the current tenant, or of the tenant; the first call creates it.
create or replace function dialectic.open_wallet(p_user_id uuid) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := dialectic.current_tenant();
begin
  if p_user_id is not null and not exists (
    select from dialectic.memberships m where m.tenant_id = v_tenant and m.user_id = p_user_id
  ) then
    raise exception 'user % does not exist', p_user_id
      using errcode = 'DJ103', constraint = 'user_exists';
  end if;
  return dialectic.make_wallet(v_tenant, p_user_id);
end
$$;

-- Add money to a wallet of the current tenant, once per key; return the new balance.
create or replace function dialectic.fund_wallet(
  p_wallet_id uuid, p_is_play boolean, p_type text, p_amount bigint, p_key text, p_user_id uuid,
  p_notes text
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  return dialectic.put_in(dialectic.current_tenant(), p_wallet_id, p_is_play, p_type, p_amount,
    p_key, p_user_id, p_notes);
end
$$;

-- For the owner's functions: deposit into a wallet. The wallet is locked before the key is looked
-- up, so two deposits with the same key run one after the other instead of raising an error.
create or replace function dialectic.put_in(
  p_tenant_id uuid, p_wallet_id uuid, p_is_play boolean, p_type text, p_amount bigint, p_key text,
  p_user_id uuid, p_notes text
) returns bigint
language plpgsql
as $$
declare
  v_before dialectic.token_wallet_transactions;
  v_balance bigint;
begin
  perform from dialectic.token_wallets w
  where w.tenant_id = p_tenant_id and w.id = p_wallet_id
  for no key update;
  if not found then
    raise exception 'wallet % does not exist', p_wallet_id
      using errcode = 'DJ103', constraint = 'wallet_exists';
  end if;
  select t.* into v_before from dialectic.token_wallet_transactions t
  where t.tenant_id = p_tenant_id and t.wallet_id = p_wallet_id
    and t.idempotency_key = p_key and t.transaction_type = p_type;
  if found then
    if (v_before.amount_credits, v_before.is_play) <> (p_amount, p_is_play) then
      raise exception '% credits were deposited under key %, not %', v_before.amount_credits, p_key, p_amount
        using errcode = 'DJ104', constraint = 'deposit_key_is_used_once';
    end if;
    return v_before.balance_after_credits;
  end if;
  update dialectic.token_wallets w
  set balance_credits = w.balance_credits + case when p_is_play then 0 else p_amount end,
      play_balance_credits = w.play_balance_credits + case when p_is_play then p_amount else 0 end,
      changed_in = pg_current_xact_id()
  where w.tenant_id = p_tenant_id and w.id = p_wallet_id
  returning case when p_is_play then w.play_balance_credits else w.balance_credits end
    into v_balance;
  insert into dialectic.token_wallet_transactions
    (tenant_id, wallet_id, is_play, transaction_type, from_account, to_account, amount_credits,
     balance_after_credits, idempotency_key, recorded_by_user_id, notes)
  values
    (p_tenant_id, p_wallet_id, p_is_play, p_type, 'grants', 'wallet', p_amount, v_balance, p_key,
     p_user_id, p_notes);
  perform dialectic.wake_funded(p_tenant_id, p_wallet_id);
  return v_balance;
end
$$;

-- Make a wallet count only, or enforce its balance again. Enforcing requires that the balance
-- covers the open holds.
create or replace function dialectic.set_wallet_count_only(p_wallet_id uuid, p_is_count_only boolean)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update dialectic.token_wallets w
  set is_count_only = p_is_count_only, changed_in = pg_current_xact_id()
  where w.tenant_id = dialectic.current_tenant() and w.id = p_wallet_id;
  if not found then
    raise exception 'wallet % does not exist', p_wallet_id
      using errcode = 'DJ103', constraint = 'wallet_exists';
  end if;
  perform dialectic.wake_funded(dialectic.current_tenant(), p_wallet_id);
end
$$;

-- Limit a wallet of the current tenant to an amount that it may spend from now on, once per key: add
-- or withdraw what differs from that, and enforce the balance.
create or replace function dialectic.limit_wallet(
  p_wallet_id uuid, p_amount bigint, p_key text, p_user_id uuid
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := dialectic.current_tenant();
  v_wallet dialectic.token_wallets;
  v_more bigint;
begin
  select w.* into v_wallet from dialectic.token_wallets w
  where w.tenant_id = v_tenant and w.id = p_wallet_id
  for no key update;
  if not found then
    raise exception 'wallet % does not exist', p_wallet_id
      using errcode = 'DJ103', constraint = 'wallet_exists';
  end if;
  if exists (
    select from dialectic.token_wallet_transactions t
    where t.tenant_id = v_tenant and t.wallet_id = p_wallet_id and t.idempotency_key = p_key
  ) then
    return;
  end if;
  v_more := p_amount - dialectic.find_free(v_wallet, false);
  if v_more > 0 then
    perform dialectic.put_in(v_tenant, p_wallet_id, false, 'top_up', v_more, p_key, p_user_id,
      'spending limit');
  elsif v_more < 0 then
    insert into dialectic.token_wallet_transactions
      (tenant_id, wallet_id, transaction_type, from_account, to_account, amount_credits,
       balance_after_credits, idempotency_key, recorded_by_user_id, notes)
    values
      (v_tenant, p_wallet_id, 'withdrawal', 'wallet', 'grants', -v_more,
       v_wallet.balance_credits + v_more, p_key, p_user_id, 'spending limit');
  end if;
  -- While it only counted, play money may have run out too: begin with as much as a new wallet.
  if dialectic.find_free(v_wallet, true) < 0 then
    perform dialectic.put_in(v_tenant, p_wallet_id, true, 'grant',
      1000000000 - dialectic.find_free(v_wallet, true), p_key, p_user_id, 'play money');
  end if;
  update dialectic.token_wallets w
  set is_count_only = false, balance_credits = w.balance_credits + least(v_more, 0),
      changed_in = pg_current_xact_id()
  where w.tenant_id = v_tenant and w.id = p_wallet_id;
end
$$;

-- Set a session's budget, or remove it. The budget must cover what is spent and held already.
create or replace function dialectic.set_session_budget(p_session_id uuid, p_budget bigint)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Followers see the budget with the session.
  update dialectic.dialectic_sessions s set changed_in = pg_current_xact_id()
  where s.tenant_id = dialectic.current_tenant() and s.id = p_session_id;
  if not found then
    raise exception 'session % does not exist', p_session_id
      using errcode = 'DJ103', constraint = 'session_exists';
  end if;
  insert into dialectic.dialectic_session_spending as s (tenant_id, session_id, budget_credits)
  values (dialectic.current_tenant(), p_session_id, p_budget)
  on conflict (tenant_id, session_id) do update set budget_credits = excluded.budget_credits;
  perform dialectic.wake_funded(s.tenant_id, s.wallet_id)
  from dialectic.dialectic_sessions s
  where s.tenant_id = dialectic.current_tenant() and s.id = p_session_id;
end
$$;

-- What a session of any tenant may spend of one kind of money now.
create or replace function dialectic.read_funds(
  p_tenant_id uuid, p_wallet_id uuid, p_session_id uuid, p_is_play boolean
) returns table (
  available_credits bigint, budget_credits bigint, budget_left_credits bigint, held_credits bigint,
  budget_held_credits bigint
)
language sql stable
as $$
  select
    case when w.is_count_only then null
      when p_is_play then w.play_balance_credits - w.play_held_credits
      else w.balance_credits - w.held_credits
    end,
    s.budget_credits::bigint,
    s.budget_credits - case when p_is_play then s.play_spent_credits + s.play_held_credits
      else s.spent_credits + s.held_credits end,
    (case when p_is_play then w.play_held_credits else w.held_credits end)::bigint,
    coalesce(case when p_is_play then s.play_held_credits else s.held_credits end, 0)
  from dialectic.token_wallets w
  left join dialectic.dialectic_session_spending s
    on s.tenant_id = w.tenant_id and s.session_id = p_session_id
  where w.tenant_id = p_tenant_id and w.id = p_wallet_id
$$;

-- The same for a session of the tenant that is named.
create or replace function dialectic.load_funds(
  p_tenant_id uuid, p_wallet_id uuid, p_session_id uuid, p_is_play boolean
) returns table (
  available_credits bigint, budget_credits bigint, budget_left_credits bigint, held_credits bigint,
  budget_held_credits bigint
)
language plpgsql
as $$
begin
  perform dialectic.act_for(p_tenant_id);
  return query
    select f.* from dialectic.read_funds(p_tenant_id, p_wallet_id, p_session_id, p_is_play) f;
end
$$;

-- The same for a job that is about to wait for money. The wallet stays locked until that job has
-- committed, so a later deposit finds the job waiting.
create or replace function dialectic.watch_funds(p_session_id uuid, p_is_play boolean)
returns table (
  available_credits bigint, budget_credits bigint, budget_left_credits bigint, held_credits bigint,
  budget_held_credits bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := dialectic.current_tenant();
  v_wallet_id uuid;
begin
  select s.wallet_id into v_wallet_id from dialectic.dialectic_sessions s
  where s.tenant_id = v_tenant and s.id = p_session_id;
  -- Include the money that this transaction has released.
  set constraints dialectic.holds_move_funds immediate;
  perform from dialectic.dialectic_session_spending s
  where s.tenant_id = v_tenant and s.session_id = p_session_id for share;
  perform from dialectic.token_wallets w
  where w.tenant_id = v_tenant and w.id = v_wallet_id for share;
  return query
    select p.* from dialectic.load_funds(v_tenant, v_wallet_id, p_session_id, p_is_play) p;
end
$$;
