-- Money: wallets with play money apart, holds before calls, and a journal of transfers.
-- All of it is written by the owner's functions (functions/ledger*.sql) and by nobody else.

-- Play money pays for models that cost nothing. It never meets real money.
alter table token_wallets
  add column play_balance_credits bigint not null default 0,
  add column play_held_credits bigint not null default 0,
  add constraint wallet_play_holds_are_not_negative check (play_held_credits >= 0),
  add constraint wallet_play_is_never_overdrawn
    check (is_count_only or play_balance_credits >= play_held_credits),
  -- Every hold and every settlement changes this row: new versions find room beside the old one.
  set (fillfactor = 50);

-- A row of the journal is one transfer: an amount leaves one account and enters another, so that all
-- accounts together always hold nothing, whatever is written. The accounts are those of one wallet,
-- once for real money and once for play money:
--   wallet    what its owner may spend
--   provider  what calls cost where they are answered
--   grants    where money comes from: top-ups and gifts
--   overrun   what calls cost beyond what was held for them
--   loss      what calls cost whose answer was lost
alter table token_wallet_transactions
  add column is_play boolean not null default false,
  add column from_account text not null,
  add column to_account text not null,
  drop constraint token_wallet_transactions_amount_credits_check,
  drop constraint token_wallet_transactions_transaction_type_check,
  drop constraint token_wallet_transactions_pkey,
  drop constraint token_wallet_transactions_tenant_id_wallet_id_idempotency_k_key,
  drop column related_entity_type,
  drop column related_entity_id,
  add primary key (tenant_id, wallet_id, id),
  -- The key of a usage, an overrun or a loss is that of its hold.
  add constraint a_transfer_happens_once
    unique (tenant_id, wallet_id, idempotency_key, transaction_type),
  add constraint a_transfer_moves_something check (amount_credits > 0),
  add constraint a_transfer_has_its_accounts check (
    (transaction_type, from_account, to_account) in (
      ('top_up', 'grants', 'wallet'),
      ('grant', 'grants', 'wallet'),
      ('usage', 'wallet', 'provider'),
      ('overrun', 'overrun', 'provider'),
      ('loss', 'loss', 'provider')
    )
  );

-- Money that is set aside for one call before it is made. A hold is resolved once: posted (the call
-- is paid for), voided (it was never made) or lost (made, and its answer never saved).
-- It names its session, its job and its answer without referring to them: they can be deleted, and
-- what was paid for them stays written. Nor does it refer to its wallet: each reference is looked up
-- and locked at every insert, and that row is the one everybody meets at.
create table token_wallet_holds (
  tenant_id uuid not null,
  -- Derived from the work: job, attempt and turn, or whatever the caller names the call by.
  hold_key text not null check (length(hold_key) between 1 and 200),
  wallet_id uuid not null,
  is_play boolean not null,
  purpose text not null check (purpose in ('call', 'embedding', 'compression', 'chat', 'trial')),
  model_name text not null,
  session_id uuid,
  stage_slug text,
  job_id uuid,
  -- The fencing token of the job's attempt.
  attempt integer,
  amount_credits bigint not null check (amount_credits >= 0),
  -- The prices that count for this call, whatever they are by the time it is answered.
  input_credits_per_token numeric not null check (input_credits_per_token >= 0),
  output_credits_per_token numeric not null check (output_credits_per_token >= 0),
  counted_input_tokens bigint not null check (counted_input_tokens >= 0),
  output_cap_tokens bigint not null check (output_cap_tokens >= 0),
  -- When the request may have left: from then on it may cost money whatever comes back.
  sent_at timestamptz,
  provider_request_id text,
  state text not null default 'pending' check (state in ('pending', 'posted', 'voided', 'lost')),
  -- What the call cost where it was answered, and what the wallet paid of it.
  cost_credits bigint,
  charged_credits bigint,
  input_tokens bigint check (input_tokens >= 0),
  output_tokens bigint check (output_tokens >= 0),
  usage_source text check (usage_source in ('reported', 'counted')),
  -- What was reported where it was not believed.
  reported_usage jsonb,
  flags text[] not null default '{}',
  answer_id uuid,
  created_at timestamptz not null default dialectic.now(),
  resolved_at timestamptz,
  primary key (tenant_id, hold_key),
  constraint a_hold_covers_what_it_allows check (
    amount_credits >= counted_input_tokens * input_credits_per_token
      + output_cap_tokens * output_credits_per_token),
  constraint a_job_has_its_attempt check ((job_id is null) = (attempt is null)),
  constraint a_resolved_hold_has_its_time check ((state = 'pending') = (resolved_at is null)),
  constraint a_hold_pays_what_its_state_says check ((
    case state
      when 'pending' then num_nonnulls(cost_credits, charged_credits, answer_id) = 0
      when 'posted' then cost_credits >= 0 and charged_credits = least(cost_credits, amount_credits)
        and num_nulls(input_tokens, output_tokens, usage_source) = 0
      when 'lost' then cost_credits >= 0 and charged_credits = 0 and answer_id is null
        and sent_at is not null
      else cost_credits = 0 and charged_credits = 0 and answer_id is null
    end) is true)
);
-- An answer is paid for once.
create unique index one_hold_per_answer on token_wallet_holds (tenant_id, answer_id)
  where answer_id is not null;
create index holds_of_a_session on token_wallet_holds (tenant_id, session_id)
  where session_id is not null;
-- The few that are open, which the sweeper looks at across tenants.
create index holds_pending on token_wallet_holds (tenant_id, wallet_id, created_at)
  where state = 'pending';

-- What a session has spent and holds, and the most it may: a second lid beside the wallet's.
-- A budget counts for each kind of money by itself.
create table dialectic_session_spending (
  tenant_id uuid not null,
  session_id uuid not null,
  budget_credits bigint check (budget_credits >= 0),
  held_credits bigint not null default 0 check (held_credits >= 0),
  spent_credits bigint not null default 0 check (spent_credits >= 0),
  play_held_credits bigint not null default 0 check (play_held_credits >= 0),
  play_spent_credits bigint not null default 0 check (play_spent_credits >= 0),
  -- When its first call was held for: from then on each of its answers has a posted hold.
  first_hold_at timestamptz,
  primary key (tenant_id, session_id),
  constraint a_budget_is_never_exceeded check (
    spent_credits + held_credits <= budget_credits
    and play_spent_credits + play_held_credits <= budget_credits)
) with (fillfactor = 50);

-- Wallets that are there already begin like new ones: with play money, and with what they hold.
update token_wallets set held_credits = 0, play_balance_credits = 1000000000;
insert into token_wallet_transactions
  (tenant_id, wallet_id, is_play, transaction_type, from_account, to_account, amount_credits,
   balance_after_credits, idempotency_key, notes)
select tenant_id, id, true, 'grant', 'grants', 'wallet', play_balance_credits,
  play_balance_credits, 'play money', 'play money to begin with'
from token_wallets
union all
select tenant_id, id, false, 'top_up', 'grants', 'wallet', balance_credits, balance_credits,
  'opening', 'what the wallet held when its journal began'
from token_wallets
where balance_credits > 0;
