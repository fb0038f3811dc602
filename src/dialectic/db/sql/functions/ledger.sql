-- Money movements. These functions are the only writers of wallets, holds, the journal and session
-- spending. Each acts for the current tenant and takes its locks in one order: the hold, the
-- session's spending, the wallet. The wallet is last because it is the most contended row: a hold
-- has its own transaction, and a resolved hold moves money at the end of its transaction.
-- Codes: DJ101 insufficient funds, DJ102 over budget, DJ103 not found, DJ104 already resolved or
-- made with other values, DJ105 the attempt has ended, DJ106 over the automatic spending limit.

-- Reserve money for one call. The request is sent right after this commit, so from then on it may
-- cost money. The same call again returns its existing hold. With a fraction, the amount may not
-- exceed this share of the available money; more needs a user's approval. A worker names the tenant,
-- which saves it a round trip.
create or replace function dialectic.reserve_funds(
  p_tenant_id uuid, p_unasked_fraction numeric, p_key text, p_wallet_id uuid, p_is_play boolean,
  p_purpose text, p_model_name text, p_session_id uuid, p_stage_slug text, p_job_id uuid,
  p_attempt integer, p_amount bigint, p_input_rate numeric, p_output_rate numeric,
  p_input_tokens bigint, p_output_cap bigint
) returns dialectic.token_wallet_holds
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := coalesce(p_tenant_id, dialectic.current_tenant());
  v_hold dialectic.token_wallet_holds;
  v_budget bigint;
begin
  perform dialectic.act_for(v_tenant);
  -- An attempt that lost its job must not call.
  if p_job_id is not null and not dialectic.is_under_way(v_tenant, p_job_id, p_attempt) then
    raise exception 'attempt % of job % has ended', p_attempt, p_job_id
      using errcode = 'DJ105', constraint = 'attempt_is_under_way';
  end if;
  insert into dialectic.token_wallet_holds
    (tenant_id, hold_key, wallet_id, is_play, purpose, model_name, session_id, stage_slug, job_id,
     attempt, amount_credits, input_credits_per_token, output_credits_per_token,
     counted_input_tokens, output_cap_tokens)
  values
    (v_tenant, p_key, p_wallet_id, p_is_play, p_purpose, p_model_name, p_session_id, p_stage_slug,
     p_job_id, p_attempt, p_amount, p_input_rate, p_output_rate, p_input_tokens, p_output_cap)
  on conflict (tenant_id, hold_key) do nothing
  returning * into v_hold;
  if not found then
    select h.* into v_hold from dialectic.token_wallet_holds h
    where h.tenant_id = v_tenant and h.hold_key = p_key;
    if (v_hold.wallet_id, v_hold.is_play, v_hold.amount_credits, v_hold.state)
        is distinct from (p_wallet_id, p_is_play, p_amount, 'pending') then
      raise exception 'hold % already exists with % credits and is %', p_key, v_hold.amount_credits,
        v_hold.state using errcode = 'DJ104', constraint = 'hold_key_is_used_once';
    end if;
    return v_hold;
  end if;
  if p_session_id is not null then
    v_budget := dialectic.hold_within_budget(v_tenant, p_session_id, p_is_play, p_amount);
  end if;
  perform dialectic.hold_in_wallet(
    v_tenant, p_wallet_id, p_is_play, p_amount, p_unasked_fraction, v_budget);
  return v_hold;
end
$$;

-- Add a hold to a session's spending, within its budget. The first hold creates the row.
create or replace function dialectic.hold_within_budget(
  p_tenant_id uuid, p_session_id uuid, p_is_play boolean, p_amount bigint
) returns bigint
language plpgsql
as $$
declare
  v_real bigint := case when p_is_play then 0 else p_amount end;
  v_play bigint := p_amount - v_real;
  v_budget bigint;
  v_spending dialectic.dialectic_session_spending;
begin
  insert into dialectic.dialectic_session_spending as s
    (tenant_id, session_id, held_credits, play_held_credits, first_hold_at)
  values (p_tenant_id, p_session_id, v_real, v_play, dialectic.now())
  on conflict (tenant_id, session_id) do update
  set held_credits = s.held_credits + v_real,
      play_held_credits = s.play_held_credits + v_play,
      first_hold_at = coalesce(s.first_hold_at, excluded.first_hold_at)
  where s.budget_credits is null
    or (case when p_is_play then s.play_spent_credits + s.play_held_credits
        else s.spent_credits + s.held_credits end) + p_amount <= s.budget_credits
  returning s.budget_credits into v_budget;
  if not found then
    select s.* into v_spending from dialectic.dialectic_session_spending s
    where s.tenant_id = p_tenant_id and s.session_id = p_session_id;
    raise exception 'the budget of session % is exhausted', p_session_id
      using errcode = 'DJ102', detail = jsonb_build_object(
        'budget', v_spending.budget_credits,
        'spent', case when p_is_play then v_spending.play_spent_credits
          else v_spending.spent_credits end,
        'held', case when p_is_play then v_spending.play_held_credits
          else v_spending.held_credits end)::text;
  end if;
  return v_budget;
end
$$;

-- The available money of one kind in a wallet: its balance minus its open holds.
create or replace function dialectic.find_free(p_wallet dialectic.token_wallets, p_is_play boolean)
returns bigint
language sql immutable
as $$
  select case when p_is_play then p_wallet.play_balance_credits - p_wallet.play_held_credits
    else p_wallet.balance_credits - p_wallet.held_credits end
$$;

-- Reserve the money in the wallet; the last lock of the caller. A count-only wallet has no spending
-- limit.
create or replace function dialectic.hold_in_wallet(
  p_tenant_id uuid, p_wallet_id uuid, p_is_play boolean, p_amount bigint, p_unasked_fraction numeric,
  p_budget bigint
) returns void
language plpgsql
as $$
declare
  v_wallet dialectic.token_wallets;
begin
  update dialectic.token_wallets w
  set held_credits = w.held_credits + case when p_is_play then 0 else p_amount end,
      play_held_credits = w.play_held_credits + case when p_is_play then p_amount else 0 end
  where w.tenant_id = p_tenant_id and w.id = p_wallet_id
    and (w.is_count_only or p_amount <= dialectic.find_free(w, p_is_play)
      and (p_unasked_fraction is null
        or p_amount <= p_unasked_fraction * least(p_budget, dialectic.find_free(w, p_is_play))));
  if found then
    return;
  end if;
  select w.* into v_wallet from dialectic.token_wallets w
  where w.tenant_id = p_tenant_id and w.id = p_wallet_id;
  if v_wallet.id is null then
    raise exception 'wallet % does not exist', p_wallet_id
      using errcode = 'DJ103', constraint = 'wallet_exists';
  end if;
  if p_unasked_fraction is not null and p_amount <= dialectic.find_free(v_wallet, p_is_play) then
    raise exception '% credits exceed the automatic spending limit', p_amount
      using errcode = 'DJ106';
  end if;
  raise exception 'wallet % has insufficient funds', p_wallet_id
    using errcode = 'DJ101', detail = jsonb_build_object(
      'balance', case when p_is_play then v_wallet.play_balance_credits
        else v_wallet.balance_credits end,
      'held', case when p_is_play then v_wallet.play_held_credits
        else v_wallet.held_credits end)::text;
end
$$;

-- Lock a hold of the current tenant. Raise if it is neither pending nor in the wanted state: it was
-- resolved differently.
create or replace function dialectic.take_hold(p_key text, p_wanted_state text)
returns dialectic.token_wallet_holds
language plpgsql
as $$
declare
  v_hold dialectic.token_wallet_holds;
begin
  select h.* into v_hold from dialectic.token_wallet_holds h
  where h.tenant_id = dialectic.current_tenant() and h.hold_key = p_key
  for no key update;
  if not found then
    raise exception 'hold % does not exist', p_key using errcode = 'DJ103', constraint = 'hold_exists';
  end if;
  if v_hold.state not in ('pending', p_wanted_state) then
    raise exception 'hold % was already %', p_key, v_hold.state
      using errcode = 'DJ104', constraint = 'hold_ends_once';
  end if;
  return v_hold;
end
$$;

-- Settle an answered call: its cost is its tokens at the hold's rates, rounded up once. The wallet
-- pays at most the held amount. Implausible usage costs at most the held amount too.
-- Idempotent: settling again returns the same.
create or replace function dialectic.settle_hold(
  p_key text, p_input_tokens bigint, p_output_tokens bigint, p_usage_source text,
  p_is_doubted boolean, p_reported_usage jsonb, p_flags text[], p_answer_id uuid, p_request_id text
) returns dialectic.token_wallet_holds
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_hold dialectic.token_wallet_holds := dialectic.take_hold(p_key, 'posted');
  v_cost bigint;
begin
  if v_hold.state = 'posted' then
    return v_hold;
  end if;
  v_cost := dialectic.price_tokens(v_hold, p_input_tokens, p_output_tokens);
  if p_is_doubted then
    v_cost := least(v_cost, v_hold.amount_credits);
  end if;
  update dialectic.token_wallet_holds h
  set state = 'posted', cost_credits = v_cost, charged_credits = least(v_cost, h.amount_credits),
      input_tokens = p_input_tokens, output_tokens = p_output_tokens,
      usage_source = p_usage_source, reported_usage = p_reported_usage,
      flags = p_flags
        || case when v_cost > h.amount_credits then array['overrun'] else '{}' end
        || case when p_answer_id is null and h.purpose in ('call', 'look', 'chat', 'compression')
             then array['unfinished'] else '{}' end,
      answer_id = p_answer_id,
      provider_request_id = p_request_id,
      resolved_at = dialectic.now()
  where h.tenant_id = v_hold.tenant_id and h.hold_key = p_key
  returning * into v_hold;
  return v_hold;
end
$$;

-- For the functions here and the sweeper: resolve a locked hold whose call has no response.
-- Idempotent: a second time returns the same.
create or replace function dialectic.give_up_hold(
  p_hold dialectic.token_wallet_holds, p_state text
) returns dialectic.token_wallet_holds
language plpgsql
as $$
begin
  if p_hold.state = p_state then
    return p_hold;
  end if;
  update dialectic.token_wallet_holds h
  set state = p_state, charged_credits = 0, resolved_at = dialectic.now(),
      -- As if the response had used its whole output limit.
      cost_credits = case p_state when 'lost'
        then dialectic.price_tokens(h, h.counted_input_tokens, h.output_cap_tokens) else 0 end
  where h.tenant_id = p_hold.tenant_id and h.hold_key = p_hold.hold_key
  returning * into p_hold;
  return p_hold;
end
$$;

-- Void a hold: the call was never made, or the provider rejected it without charge.
create or replace function dialectic.void_hold(p_key text) returns dialectic.token_wallet_holds
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select dialectic.give_up_hold(dialectic.take_hold(p_key, 'voided'), 'voided')
$$;

-- Mark a hold as lost: the call was made and its response is gone. The wallet pays nothing; the
-- maximum cost is booked as a loss.
create or replace function dialectic.lose_hold(p_key text) returns dialectic.token_wallet_holds
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select dialectic.give_up_hold(dialectic.take_hold(p_key, 'lost'), 'lost')
$$;

-- The cost of a number of tokens at the prices of a hold.
create or replace function dialectic.price_tokens(
  p_hold dialectic.token_wallet_holds, p_input_tokens bigint, p_output_tokens bigint
) returns bigint
language sql immutable
as $$
  select ceil(p_input_tokens * p_hold.input_credits_per_token
    + p_output_tokens * p_hold.output_credits_per_token)::bigint
$$;

-- Trigger: apply a resolved hold. Release the held amount, pay the charge, write the journal, wake
-- the jobs that waited for the money. It
-- fires at commit, so that spending and wallet are locked only briefly, whatever else the
-- transaction does. The journal is written after the wallet: each row records the balance, so row
-- numbers and balances have the same order.
create or replace function dialectic.move_funds() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_real bigint := case when new.is_play then 0 else new.amount_credits end;
  v_play bigint := new.amount_credits - v_real;
  v_real_charged bigint := case when new.is_play then 0 else new.charged_credits end;
  v_play_charged bigint := new.charged_credits - v_real_charged;
  v_balance bigint;
begin
  if new.session_id is not null then
    update dialectic.dialectic_session_spending s
    set held_credits = s.held_credits - v_real, spent_credits = s.spent_credits + v_real_charged,
        play_held_credits = s.play_held_credits - v_play,
        play_spent_credits = s.play_spent_credits + v_play_charged
    where s.tenant_id = new.tenant_id and s.session_id = new.session_id;
  end if;
  update dialectic.token_wallets w
  set held_credits = w.held_credits - v_real, balance_credits = w.balance_credits - v_real_charged,
      play_held_credits = w.play_held_credits - v_play,
      play_balance_credits = w.play_balance_credits - v_play_charged,
      changed_in = pg_current_xact_id()
  where w.tenant_id = new.tenant_id and w.id = new.wallet_id
  returning case when new.is_play then w.play_balance_credits else w.balance_credits end
    into v_balance;
  if new.cost_credits > 0 then
    insert into dialectic.token_wallet_transactions
      (tenant_id, wallet_id, is_play, transaction_type, from_account, to_account, amount_credits,
       balance_after_credits, idempotency_key)
    select new.tenant_id, new.wallet_id, new.is_play, t.type, t.from_account, 'provider', t.amount,
      v_balance, new.hold_key
    from (values
      ('usage', 'wallet', new.charged_credits),
      (case new.state when 'lost' then 'loss' else 'overrun' end,
       case new.state when 'lost' then 'loss' else 'overrun' end,
       new.cost_credits - new.charged_credits)
    ) as t (type, from_account, amount)
    where t.amount > 0;
  end if;
  if exists (
    select from dialectic.dialectic_generation_jobs j
    where j.tenant_id = new.tenant_id and j.awaited_credits is not null
  ) then
    perform dialectic.wake_funded(new.tenant_id, new.wallet_id);
  end if;
  return null;
end
$$;

-- Trigger before an update of a hold: only an open hold changes, and its purpose is immutable.
create or replace function dialectic.hold_guard() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if old.state <> 'pending' then
    raise exception 'hold % was already %', old.hold_key, old.state
      using errcode = 'DJ002', constraint = 'hold_ends_once';
  end if;
  if (new.tenant_id, new.hold_key, new.wallet_id, new.is_play, new.purpose, new.model_name,
      new.session_id, new.stage_slug, new.job_id, new.attempt, new.amount_credits,
      new.input_credits_per_token, new.output_credits_per_token, new.counted_input_tokens,
      new.output_cap_tokens, new.created_at)
    is distinct from (old.tenant_id, old.hold_key, old.wallet_id, old.is_play, old.purpose,
      old.model_name, old.session_id, old.stage_slug, old.job_id, old.attempt, old.amount_credits,
      old.input_credits_per_token, old.output_credits_per_token, old.counted_input_tokens,
      old.output_cap_tokens, old.created_at) then
    raise exception 'the purpose of hold % is immutable', old.hold_key
      using errcode = 'DJ002', constraint = 'hold_never_changes';
  end if;
  return new;
end
$$;
