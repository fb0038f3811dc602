-- Money: wallets, holds before calls, and a journal of transfers.
--
-- Only the owner's functions (functions/ledger.sql, functions/wallets.sql) write it. Amounts are
-- whole credits; one credit is one millionth of a US dollar. Play money pays for models that cost
-- nothing and never meets real money.
--
-- A rule about one value is a type: each statement that writes to a table reads and plans the
-- checks of that table again, but those of a type once a connection, and these tables are written
-- to twice a call.

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
  primary key (tenant_id, id),
  constraint wallet_is_never_overdrawn check (is_count_only or balance_credits >= held_credits),
  constraint wallet_play_is_never_overdrawn
    check (is_count_only or play_balance_credits >= play_held_credits)
) with (fillfactor = 50);  -- every hold and settlement updates the row: its next version fits the page
create unique index one_wallet_per_user on token_wallets (tenant_id, user_id) nulls not distinct;

-- A row of the journal is one transfer: an amount leaves one account and enters another, so that
-- all accounts together always hold nothing. Rows are added, never changed. Each wallet has these
-- accounts, once for real money and once for play money:
--   wallet    what its owner may spend
--   provider  what calls cost where they are answered
--   grants    where money comes from: top-ups and gifts
--   overrun   what calls cost beyond what was held for them
--   loss      what calls cost whose answer was lost
-- It has no reference to its wallet: the writer has just changed that row, and a reference would
-- lock it a second time.
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
      ('usage', 'wallet', 'provider'),
      ('overrun', 'overrun', 'provider'),
      ('loss', 'loss', 'provider')
    )
  )
);
create index overruns on token_wallet_transactions (tenant_id, is_play, amount_credits)
  where transaction_type = 'overrun';

-- Money set aside for one call. The commit right before the request leaves makes the hold, so an
-- open hold may have cost money since it was made. A hold is resolved once: posted (the call is
-- paid for), voided (it was never made) or lost (made, and its answer never saved). It names its
-- session, its job and its answer without a reference: those can be deleted, and what was paid for
-- them stays on record. Nor does it refer to its wallet: each reference is looked up and locked at
-- every insert, and all calls meet at that row.
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
  -- What the call cost where it was answered, and what the wallet paid of it.
  cost_credits dialectic.credits,
  charged_credits dialectic.credits,
  input_tokens dialectic.tokens,
  output_tokens dialectic.tokens,
  usage_source dialectic.usage_source,
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
-- An answer is paid for once.
create unique index one_hold_per_answer on token_wallet_holds (tenant_id, answer_id)
  where answer_id is not null;
create index holds_of_a_session on token_wallet_holds (tenant_id, session_id)
  where session_id is not null;
-- The few that are open, which the sweeper looks at across tenants.
create index holds_pending on token_wallet_holds (tenant_id, wallet_id, created_at)
  where state = 'pending';
-- The few whose provider counts otherwise than we do, for an operator to look at.
create index holds_doubted on token_wallet_holds (tenant_id, hold_key)
  where reported_usage is not null;

-- What a session has spent and holds, and the most it may: a second limit next to the wallet's. A
-- budget counts for each kind of money by itself.
create table dialectic_session_spending (
  tenant_id uuid not null,
  session_id uuid not null,
  budget_credits dialectic.credits,
  held_credits dialectic.credits not null default 0,
  spent_credits dialectic.credits not null default 0,
  play_held_credits dialectic.credits not null default 0,
  play_spent_credits dialectic.credits not null default 0,
  -- When its first call was held for: from then on each of its answers has a posted hold.
  first_hold_at timestamptz,
  primary key (tenant_id, session_id),
  constraint a_budget_is_never_exceeded check (
    spent_credits + held_credits <= budget_credits
    and play_spent_credits + play_held_credits <= budget_credits)
) with (fillfactor = 50);
