-- Whether a later call of the same chat question has started and may still be answered. The keys of
-- such calls differ in the number at the end.
create or replace function dialectic.is_followed(
  p_hold dialectic.token_wallet_holds, p_since timestamptz
) returns boolean
language sql stable
as $$
  select p_hold.purpose = 'chat' and exists (
    select from dialectic.token_wallet_holds n
    where n.tenant_id = p_hold.tenant_id and n.state = 'pending' and n.purpose = 'chat'
      and n.created_at >= p_since
      and starts_with(n.hold_key, regexp_replace(p_hold.hold_key, '[0-9]+$', ''))
  )
$$;

-- Resolve abandoned holds of all tenants: their attempt has ended (another one has started, or the
-- job has ended, waits or is deleted), or their holder has been silent for longer than any call
-- takes. Their calls may have been made, so they are marked as lost. Returns how many. The calls of
-- one chat question are settled together, when the last one is answered: none of their holds is
-- resolved before the last one's. An attempt that has ended can save nothing, so no settlement can
-- follow. Locks are taken in the common order: holds, spending, wallets, each sorted. Locked
-- holds are skipped and other waits are short: a client that froze inside a transaction must not
-- block all wallets.
create or replace function dialectic.sweep_holds(p_age interval, p_limit integer)
returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
declare
  v_hold dialectic.token_wallet_holds;
  v_holds dialectic.token_wallet_holds[] := '{}';
begin
  if not pg_try_advisory_xact_lock(hashtext('dialectic.sweep_holds')) then
    return 0;
  end if;
  for v_hold in
    select h.* from dialectic.token_wallet_holds h
    left join dialectic.dialectic_generation_jobs j
      on j.tenant_id = h.tenant_id and j.id = h.job_id
    where h.state = 'pending'
      and case
        when h.job_id is null then h.created_at < dialectic.now() - p_age
          and not dialectic.is_followed(h, dialectic.now() - p_age)
        else j.id is null or j.attempt_count <> h.attempt or j.status <> 'processing'
          or j.lease_until < dialectic.now() - p_age
      end
    order by h.tenant_id, h.hold_key
    limit p_limit
    for no key update of h skip locked  -- a locked hold is being resolved
  loop
    v_holds := array_append(v_holds, v_hold);
  end loop;
  perform from dialectic.dialectic_session_spending s
  join (select distinct h.tenant_id, h.session_id from unnest(v_holds) h) mine
    on s.tenant_id = mine.tenant_id and s.session_id = mine.session_id
  order by s.tenant_id, s.session_id
  for no key update of s;
  perform from dialectic.token_wallets w
  join (select distinct h.tenant_id, h.wallet_id from unnest(v_holds) h) mine
    on w.tenant_id = mine.tenant_id and w.id = mine.wallet_id
  order by w.tenant_id, w.id
  for no key update of w;
  foreach v_hold in array v_holds loop
    perform dialectic.give_up_hold(v_hold, 'lost');
  end loop;
  return cardinality(v_holds);
end
$$;
