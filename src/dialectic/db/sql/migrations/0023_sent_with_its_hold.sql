-- A hold is made by the commit right before its request leaves: since when it may cost money is when it
-- was made. One that is open was sent, as far as anyone can know.
--
-- Rules about one value are types. A check of a table is read and planned anew by each statement that
-- writes to it, one of a type once a connection, and these tables are written to twice a call.
create domain dialectic.credits as bigint check (value >= 0);
create domain dialectic.tokens as bigint check (value >= 0);
create domain dialectic.credits_per_token as numeric check (value >= 0);
create domain dialectic.hold_purpose as text
  check (value in ('call', 'embedding', 'compression', 'chat', 'trial'));
create domain dialectic.usage_source as text check (value in ('reported', 'counted'));

alter table token_wallet_holds
  drop constraint a_hold_pays_what_its_state_says,
  drop constraint token_wallet_holds_purpose_check,
  drop constraint token_wallet_holds_amount_credits_check,
  drop constraint token_wallet_holds_input_credits_per_token_check,
  drop constraint token_wallet_holds_output_credits_per_token_check,
  drop constraint token_wallet_holds_counted_input_tokens_check,
  drop constraint token_wallet_holds_output_cap_tokens_check,
  drop constraint token_wallet_holds_state_check,
  drop constraint token_wallet_holds_input_tokens_check,
  drop constraint token_wallet_holds_output_tokens_check,
  drop constraint token_wallet_holds_usage_source_check,
  drop column sent_at,
  alter column purpose type dialectic.hold_purpose,
  alter column amount_credits type dialectic.credits,
  alter column input_credits_per_token type dialectic.credits_per_token,
  alter column output_credits_per_token type dialectic.credits_per_token,
  alter column counted_input_tokens type dialectic.tokens,
  alter column output_cap_tokens type dialectic.tokens,
  alter column cost_credits type dialectic.credits,
  alter column charged_credits type dialectic.credits,
  alter column input_tokens type dialectic.tokens,
  alter column output_tokens type dialectic.tokens,
  alter column usage_source type dialectic.usage_source,
  add constraint a_hold_pays_what_its_state_says check ((
    case state
      when 'pending' then num_nonnulls(cost_credits, charged_credits, answer_id) = 0
      when 'posted' then charged_credits = least(cost_credits, amount_credits)
        and num_nulls(cost_credits, input_tokens, output_tokens, usage_source) = 0
      when 'lost' then cost_credits is not null and charged_credits = 0 and answer_id is null
      when 'voided' then cost_credits = 0 and charged_credits = 0 and answer_id is null
    end) is true);
alter table token_wallets
  drop constraint wallet_holds_are_not_negative,
  drop constraint wallet_play_holds_are_not_negative,
  alter column held_credits type dialectic.credits,
  alter column play_held_credits type dialectic.credits;
alter table dialectic_session_spending
  drop constraint dialectic_session_spending_budget_credits_check,
  drop constraint dialectic_session_spending_held_credits_check,
  drop constraint dialectic_session_spending_spent_credits_check,
  drop constraint dialectic_session_spending_play_held_credits_check,
  drop constraint dialectic_session_spending_play_spent_credits_check,
  alter column budget_credits type dialectic.credits,
  alter column held_credits type dialectic.credits,
  alter column spent_credits type dialectic.credits,
  alter column play_held_credits type dialectic.credits,
  alter column play_spent_credits type dialectic.credits;
-- A transfer is written by whoever has just changed its wallet, and would lock it once more to look
-- whether it is there.
alter table token_wallet_transactions
  drop constraint token_wallet_transactions_tenant_id_wallet_id_fkey;

-- Those that are gone, or come back in another form with the other functions.
drop function if exists dialectic.mark_hold_sent(text, text);
drop function if exists dialectic.send_hold(uuid, text);
drop function if exists dialectic.estimate_cost(dialectic.token_wallet_holds);
drop function if exists dialectic.hold_within_budget(uuid, uuid, boolean, bigint);
drop function if exists dialectic.hold_in_wallet(uuid, uuid, boolean, bigint);
drop function if exists dialectic.reserve_funds(
  text, uuid, boolean, text, text, uuid, text, uuid, integer, bigint, numeric, numeric, bigint, bigint,
  boolean);
drop function if exists dialectic.sweep_holds(interval, integer);
drop function if exists dialectic.move_funds(dialectic.token_wallet_holds);
