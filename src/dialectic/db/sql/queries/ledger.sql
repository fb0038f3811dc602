-- Statements of the ledger. Functions move money; the other statements only read.

-- name: reserve
-- For the current tenant.
select * from dialectic.reserve_funds(null, $15, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
  $14)

-- name: reserve_for
select * from dialectic.reserve_funds($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
  $16)

-- name: settle
select * from dialectic.settle_hold($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: void
select * from dialectic.void_hold($1)

-- name: lose
select * from dialectic.lose_hold($1)

-- name: sweep
select dialectic.sweep_holds($1, $2)

-- name: open_wallet
select dialectic.open_wallet($1)

-- name: fund_wallet
select dialectic.fund_wallet($1, $2, $3, $4, $5, $6, $7)

-- name: set_count_only
select dialectic.set_wallet_count_only($1, $2)

-- name: limit_wallet
select dialectic.limit_wallet($1, $2, $3, $4)

-- name: set_budget
select dialectic.set_session_budget($1, $2)

-- name: load_wallet
select id, user_id, balance_credits, held_credits, play_balance_credits, play_held_credits,
  is_count_only
from token_wallets
where id = $1

-- name: watch_funds
select * from dialectic.watch_funds($1, $2)

-- name: load_funds
select * from dialectic.load_funds($1, $2, $3, $4)

-- name: list_open_holds
-- The open holds of an attempt.
select * from token_wallet_holds
where state = 'pending' and job_id = $1 and attempt = $2
order by hold_key

-- name: list_left_holds
-- The open holds of earlier attempts, which have ended and will not settle them.
select * from token_wallet_holds
where state = 'pending' and job_id = $1 and attempt < $2
order by hold_key

-- name: load_hold
select * from token_wallet_holds where hold_key = $1

-- name: report_costs
select h.stage_slug, h.model_name, (j.payload ->> 'model_index')::integer as seat, h.purpose,
  h.is_play,
  count(*) filter (where state = 'posted') as calls,
  coalesce(sum(input_tokens), 0)::bigint as input_tokens,
  coalesce(sum(output_tokens), 0)::bigint as output_tokens,
  coalesce(sum(charged_credits), 0)::bigint as charged_credits,
  coalesce(sum(cost_credits - charged_credits) filter (where state = 'posted'), 0)::bigint
    as overrun_credits,
  count(*) filter (where state = 'lost') as lost_calls,
  coalesce(sum(cost_credits) filter (where state = 'lost'), 0)::bigint as lost_credits,
  coalesce(sum(amount_credits) filter (where state = 'pending'), 0)::bigint as held_credits
from token_wallet_holds h
left join dialectic_generation_jobs j on j.tenant_id = h.tenant_id and j.id = h.job_id
where h.session_id = $1
group by h.stage_slug, h.model_name, seat, h.purpose, h.is_play
order by min(h.created_at), h.model_name, seat, h.purpose, h.is_play

-- name: be_patient
-- A check of the whole history may exceed the usual transaction timeout. Servers before version 17
-- have no such limit.
select set_config(name, setting, true)
from (values ('transaction_timeout', '0'), ('work_mem', '256MB')) as wanted (name, setting)
where name in (select s.name from pg_settings s)

-- name: count_all
select (select count(*) from token_wallets) as wallets,
  (select count(*) from token_wallet_holds) as holds,
  (select count(*) from token_wallet_transactions) as transfers

-- name: verify_limits
-- I1: the balance of a limited wallet covers its holds, and no wallet's held amount is negative.
select 'I1' as invariant, 'wallet ' || w.id as place,
  format('%s %s, of which %s is held', m.kind, m.balance, m.held) as detail
from token_wallets w
cross join lateral (values
  ('real', w.balance_credits, w.held_credits), ('play', w.play_balance_credits, w.play_held_credits)
) as m (kind, balance, held)
where m.held < 0 or (not w.is_count_only and m.balance < m.held)
limit $1

-- name: verify_balances
-- I2: a balance is the sum of incoming minus outgoing transfers.
-- I3: a wallet's held amount is the sum of its open holds.
with moved as (
  select tenant_id, wallet_id, is_play,
    sum(case when to_account = 'wallet' then amount_credits
      when from_account = 'wallet' then -amount_credits else 0 end) as credits
  from token_wallet_transactions
  group by tenant_id, wallet_id, is_play
), held as (
  select tenant_id, wallet_id, is_play, sum(amount_credits) as credits
  from token_wallet_holds
  where state = 'pending'
  group by tenant_id, wallet_id, is_play
), wallets as (
  select w.tenant_id, w.id as wallet_id, m.is_play, m.balance, m.held
  from token_wallets w
  cross join lateral (values
    (false, w.balance_credits, w.held_credits),
    (true, w.play_balance_credits, w.play_held_credits)
  ) as m (is_play, balance, held)
)
select b.invariant, 'wallet ' || wallet_id as place,
  format('%s %s is %s, but its %s come to %s', case when is_play then 'play' else 'real' end,
    b.what, b.kept, b.made_of, b.counted) as detail
from wallets w
full join moved m using (tenant_id, wallet_id, is_play)
full join held h using (tenant_id, wallet_id, is_play)
cross join lateral (values
  ('I2', 'balance', w.balance, 'transfers', coalesce(m.credits, 0)),
  ('I3', 'held', w.held, 'open holds', coalesce(h.credits, 0))
) as b (invariant, what, kept, made_of, counted)
where b.kept is distinct from b.counted
limit $1

-- name: verify_accounts
-- I4: each transfer moves money between two accounts of its kind, so all accounts sum to zero.
select 'I4' as invariant, format('transfer %s of wallet %s', id, wallet_id) as place,
  format('%s of %s from %s to %s', transaction_type, amount_credits, from_account, to_account)
    as detail
from token_wallet_transactions
where amount_credits <= 0 or (transaction_type, from_account, to_account) not in (
  ('top_up', 'grants', 'wallet'), ('grant', 'grants', 'wallet'), ('withdrawal', 'wallet', 'grants'),
  ('usage', 'wallet', 'provider'),
  ('overrun', 'overrun', 'provider'), ('loss', 'loss', 'provider'))
limit $1

-- name: verify_usages
-- I5: the journal's rows of a hold match the hold's outcome. The constraint that I8 checks prevents
-- duplicates.
select 'I5' as invariant, 'hold ' || coalesce(hold_key, t.idempotency_key) as place,
  format('charged %s in the hold, %s in the journal', coalesce(h.charged_credits, 0),
    coalesce(t.amount_credits, 0)) as detail
from (
  select * from token_wallet_holds where state <> 'pending' and charged_credits <> 0
) h
full join (
  select * from token_wallet_transactions where transaction_type = 'usage'
) t on t.tenant_id = h.tenant_id and t.idempotency_key = h.hold_key
where (h.wallet_id, h.is_play, h.charged_credits)
  is distinct from (t.wallet_id, t.is_play, t.amount_credits)
limit $1

-- name: verify_extras
-- I5, for amounts that no wallet pays: overruns and losses.
select 'I5' as invariant, 'hold ' || coalesce(hold_key, t.idempotency_key) as place,
  format('%s of %s in the hold, %s of %s in the journal', coalesce(h.type, 'none'),
    coalesce(h.credits, 0), coalesce(t.transaction_type, 'none'), coalesce(t.amount_credits, 0))
    as detail
from (
  select tenant_id, hold_key, wallet_id, is_play, cost_credits - charged_credits as credits,
    case state when 'lost' then 'loss' else 'overrun' end as type
  from token_wallet_holds where state <> 'pending' and cost_credits <> charged_credits
) h
full join (
  select * from token_wallet_transactions where transaction_type in ('overrun', 'loss')
) t on t.tenant_id = h.tenant_id and t.idempotency_key = h.hold_key
where (h.wallet_id, h.is_play, h.type, h.credits)
  is distinct from (t.wallet_id, t.is_play, t.transaction_type, t.amount_credits)
limit $1

-- name: verify_answers
-- I6: since the first hold of a session, each response of a model has one posted hold, and each
-- posted call has its response unless it is marked as unfinished. The responses of a document of
-- several turns are its chunks. The same holds for paid vectors and compressed texts.
with answers as not materialized (
  select c.tenant_id, c.session_id, c.id, c.created_at, 'contribution' as kind
  from dialectic_contributions c
  where c.job_id is not null and c.raw_response_storage_path is not null
    and not exists (
      select from dialectic_chunks k
      where k.tenant_id = c.tenant_id and k.root_contribution_id = c.id)
  union all
  select k.tenant_id, k.session_id, k.id, k.created_at, 'chunk' from dialectic_chunks k
  union all
  select v.tenant_id, v.session_id, v.id, v.created_at, 'vectors'
  from dialectic_text_vectors v where v.hold_key is not null
  union all
  select p.tenant_id, p.session_id, p.id, p.created_at, 'compression'
  from dialectic_compressions p where p.hold_key is not null
), paid as not materialized (
  select h.tenant_id, h.session_id, h.hold_key, h.answer_id, h.purpose, h.flags
  from token_wallet_holds h
  where h.state = 'posted' and h.purpose in ('call', 'look', 'embedding', 'compression')
)
select 'I6' as invariant,
  case when p.hold_key is null then a.kind || ' ' || a.id else 'hold ' || p.hold_key end as place,
  case when p.hold_key is null then 'no posted hold'
    when p.answer_id is null then 'posted without an answer'
    else 'its answer ' || p.answer_id || ' is not there'
  end as detail
from answers a
full join paid p on p.tenant_id = a.tenant_id and p.answer_id = a.id
left join dialectic_session_spending s on s.tenant_id = a.tenant_id and s.session_id = a.session_id
where case
    when p.hold_key is null then a.created_at >= s.first_hold_at
    when a.id is not null then false
    when p.answer_id is null then p.purpose <> 'embedding' and not 'unfinished' = any (p.flags)
    else exists (
      select from dialectic_sessions t where t.tenant_id = p.tenant_id and t.id = p.session_id
    )
  end
limit $1

-- name: verify_spending
-- I7: a session's spent and held amounts match its holds and stay within its budget.
with sums as (
  select tenant_id, session_id,
    coalesce(sum(amount_credits) filter (where state = 'pending' and not is_play), 0) as held,
    coalesce(sum(charged_credits) filter (where not is_play), 0) as spent,
    coalesce(sum(amount_credits) filter (where state = 'pending' and is_play), 0) as play_held,
    coalesce(sum(charged_credits) filter (where is_play), 0) as play_spent
  from token_wallet_holds
  group by tenant_id, session_id
)
select 'I7' as invariant, 'session ' || session_id as place,
  format('real %s spent and %s held, play %s and %s, budget %s; its holds come to %s, %s, %s and %s',
    s.spent_credits, s.held_credits, s.play_spent_credits, s.play_held_credits,
    coalesce(s.budget_credits::text, 'none'), h.spent, h.held, h.play_spent, h.play_held) as detail
from dialectic_session_spending s full join sums h using (tenant_id, session_id)
where session_id is not null and (
  (s.held_credits, s.spent_credits, s.play_held_credits, s.play_spent_credits)
    is distinct from (coalesce(h.held, 0), coalesce(h.spent, 0), coalesce(h.play_held, 0),
      coalesce(h.play_spent, 0))
  or s.spent_credits + s.held_credits > s.budget_credits
  or s.play_spent_credits + s.play_held_credits > s.budget_credits)
limit $1

-- name: verify_guards
-- I8: the triggers and constraints exist that keep the journal append-only and unique and that
-- apply resolved holds.
select 'I8' as invariant, wanted.kind || ' ' || wanted.name as place, 'not in place' as detail
from (values
  ('trigger', 'token_wallet_transactions', 'wallet_transactions_never_change'),
  ('trigger', 'token_wallet_transactions', 'wallet_transactions_never_vanish'),
  ('trigger', 'token_wallet_holds', 'holds_resolve_once'),
  ('trigger', 'token_wallet_holds', 'holds_move_funds'),
  ('trigger', 'token_wallet_holds', 'holds_never_vanish'),
  ('constraint', 'token_wallet_transactions', 'a_transfer_happens_once'),
  ('constraint', 'token_wallet_holds', 'token_wallet_holds_pkey')
) as wanted (kind, table_name, name)
where not exists (
    select from pg_trigger t
    where t.tgrelid = to_regclass('dialectic.' || wanted.table_name) and t.tgname = wanted.name
      and t.tgenabled in ('O', 'A')
  ) and not exists (
    select from pg_constraint c
    where c.conrelid = to_regclass('dialectic.' || wanted.table_name) and c.conname = wanted.name
      and c.convalidated
  )
limit $1

-- name: verify_replay
-- I9: a replay of the journal yields the balance that each of its rows records.
select 'I9' as invariant, format('transfer %s of wallet %s', id, wallet_id) as place,
  format('%s %s makes %s, not %s', transaction_type, change, before + change, after) as detail
from (
  select id, wallet_id, transaction_type, balance_after_credits as after,
    case when to_account = 'wallet' then amount_credits
      when from_account = 'wallet' then -amount_credits else 0 end as change,
    coalesce(lag(balance_after_credits) over (
      partition by tenant_id, wallet_id, is_play order by id), 0) as before
  from token_wallet_transactions
) as replayed
where before + change <> after
limit $1

-- name: verify_pending
-- I10: no hold is open for longer than a call and the sweep of lost holds can take.
select 'I10' as invariant, 'hold ' || hold_key as place,
  format('open since %s; a worker gives it up, if one runs', created_at) as detail
from token_wallet_holds
where state = 'pending' and created_at < dialectic.now() - $2::interval
limit $1
