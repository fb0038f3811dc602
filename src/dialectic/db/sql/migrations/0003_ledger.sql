-- Money: wallets, holds before calls, and a journal of transfers.
--
-- Only the owner's functions (functions/ledger.sql, functions/wallets.sql) write it. Amounts are
-- whole credits; one credit is one millionth of a US dollar. Play money pays for models that cost
-- nothing and never meets real money.
--
-- Checks of a single value are domain types: PostgreSQL plans the checks of a table for each
-- statement that writes to it, but those of a domain once per connection. These tables are written
-- twice per call.

create domain dialectic.credits as bigint check (value >= 0);
create domain dialectic.tokens as bigint check (value >= 0);
create domain dialectic.credits_per_token as numeric check (value >= 0);
create domain dialectic.hold_purpose as text
  check (value in ('call', 'embedding', 'compression', 'chat', 'trial'));
create domain dialectic.usage_source as text check (value in ('reported', 'counted'));

-- One wallet per user and one for the tenant as a whole (user_id is null).
create table token_wallets (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  user_id uuid references users (id),
  balance_credits bigint not null default 0,
  held_credits dialectic.credits not null default 0,
  play_balance_credits bigint not null default 0,
  play_held_credits dialectic.credits not null default 0,
  is_count_only boolean not null default false,
  created_at timestamptz not null default dialectic.now(),
  -- The transaction that last changed what it has; not indexed, so that updates stay on their page.
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id),
  constraint wallet_is_never_overdrawn check (is_count_only or balance_credits >= held_credits),
  constraint wallet_play_is_never_overdrawn
    check (is_count_only or play_balance_credits >= play_held_credits)
) with (fillfactor = 50);  -- each hold and settlement updates the row: leave room on the page
create unique index one_wallet_per_user on token_wallets (tenant_id, user_id) nulls not distinct;

-- A row of the journal is one transfer: an amount leaves one account and enters another, so that
-- all accounts together always hold nothing. Rows are added, never changed. Each wallet has these
-- accounts, once for real money and once for play money:
--   wallet    what its owner may spend
--   provider  what calls cost where they are answered
--   grants    where money comes from, and goes when a limit is lowered: top-ups and gifts
--   overrun   what calls cost beyond what was held for them
--   loss      what calls cost whose answer was lost
-- It has no foreign key to its wallet: the writer has just updated that row, and the foreign key
-- would lock it a second time.
create table token_wallet_transactions (
  tenant_id uuid not null,
  id bigint generated always as identity,
  wallet_id uuid not null,
  is_play boolean not null default false,
  transaction_type text not null,
  from_account text not null,
  to_account text not null,
  amount_credits bigint not null,
  balance_after_credits bigint not null,
  -- For a usage, an overrun or a loss, the key of its hold.
  idempotency_key text not null,
  recorded_by_user_id uuid references users (id),
  notes text,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, wallet_id, id),
  constraint a_transfer_happens_once
    unique (tenant_id, wallet_id, idempotency_key, transaction_type),
  constraint a_transfer_moves_something check (amount_credits > 0),
  constraint a_transfer_has_its_accounts check (
    (transaction_type, from_account, to_account) in (
      ('top_up', 'grants', 'wallet'),
      ('grant', 'grants', 'wallet'),
      ('withdrawal', 'wallet', 'grants'),
      ('usage', 'wallet', 'provider'),
      ('overrun', 'overrun', 'provider'),
      ('loss', 'loss', 'provider')
    )
  )
);
create index overruns on token_wallet_transactions (tenant_id, is_play, amount_credits)
  where transaction_type = 'overrun';

-- Money reserved for one call. The hold is committed right before the request is sent, so the call
-- of an open hold may have cost money. A hold is resolved once: posted (the call is paid for),
-- voided (it was never made) or lost (it was made, and its response was never saved). It names its
-- session, its job and its response without foreign keys: those can be deleted, and the payment
-- stays on record. It has no foreign key to its wallet either: every insert would look up and lock
-- that row, which all calls share.
create table token_wallet_holds (
  tenant_id uuid not null,
  -- Derived from the work: job, attempt and turn, or the caller's name for the call.
  hold_key text not null check (length(hold_key) between 1 and 200),
  wallet_id uuid not null,
  is_play boolean not null,
  purpose dialectic.hold_purpose not null,
  model_name text not null,
  session_id uuid,
  stage_slug text,
  job_id uuid,
  -- The fencing token of the job's attempt.
  attempt integer,
  amount_credits dialectic.credits not null,
  -- The prices for this call, even if they change before it is answered.
  input_credits_per_token dialectic.credits_per_token not null,
  output_credits_per_token dialectic.credits_per_token not null,
  counted_input_tokens dialectic.tokens not null,
  output_cap_tokens dialectic.tokens not null,
  provider_request_id text,
  state text not null default 'pending',
  -- The provider's cost of the call, and what the wallet paid of it.
  cost_credits dialectic.credits,
  charged_credits dialectic.credits,
  input_tokens dialectic.tokens,
  output_tokens dialectic.tokens,
  usage_source dialectic.usage_source,
  -- The reported usage, if it was implausible.
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
  -- An unknown state meets no branch, and null is not true.
  constraint a_hold_pays_what_its_state_says check ((
    case state
      when 'pending' then num_nonnulls(cost_credits, charged_credits, answer_id) = 0
      when 'posted' then charged_credits = least(cost_credits, amount_credits)
        and num_nulls(cost_credits, input_tokens, output_tokens, usage_source) = 0
      when 'lost' then cost_credits is not null and charged_credits = 0 and answer_id is null
      when 'voided' then cost_credits = 0 and charged_credits = 0 and answer_id is null
    end) is true)
);
-- A response is paid for once.
create unique index one_hold_per_answer on token_wallet_holds (tenant_id, answer_id)
  where answer_id is not null;
create index holds_of_a_session on token_wallet_holds (tenant_id, session_id)
  where session_id is not null;
-- Open holds, which the sweeper reads across tenants.
create index holds_pending on token_wallet_holds (tenant_id, wallet_id, created_at)
  where state = 'pending';
-- Holds with implausible reported usage, for operators.
create index holds_doubted on token_wallet_holds (tenant_id, hold_key)
  where reported_usage is not null;

-- What a session has spent and holds, and its budget: a second limit in addition to the wallet's. A
-- budget applies to each kind of money separately.
create table dialectic_session_spending (
  tenant_id uuid not null,
  session_id uuid not null,
  budget_credits dialectic.credits,
  held_credits dialectic.credits not null default 0,
  spent_credits dialectic.credits not null default 0,
  play_held_credits dialectic.credits not null default 0,
  play_spent_credits dialectic.credits not null default 0,
  -- The time of its first hold: from then on each of its responses has a posted hold.
  first_hold_at timestamptz,
  primary key (tenant_id, session_id),
  constraint a_budget_is_never_exceeded check (
    spent_credits + held_credits <= budget_credits
    and play_spent_credits + play_held_credits <= budget_credits)
) with (fillfactor = 50);
