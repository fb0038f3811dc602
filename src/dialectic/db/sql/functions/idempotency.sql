-- Claim an idempotency key for a user of the current tenant. The state is
--   taken     claimed: do the work under effect_id and store the response
--   answered  done: the stored response is returned
--   busy      another request with this key is in progress
--   other     the key belongs to a different request
-- A claim with an id is committed by itself and lasts until its lease expires. One without an id
-- belongs to the transaction of the effect. After an expired lease, the next claimant works under
-- the same effect_id. Other claimants wait for the first one's commit, up to the lock timeout.
create or replace function dialectic.claim_key(
  p_user_id uuid, p_key text, p_request_sha256 bytea, p_effect_id uuid, p_claim_id uuid,
  p_lease interval,
  out state text, out effect_id uuid, out status smallint, out headers jsonb, out body bytea
)
language plpgsql set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  v_row dialectic.idempotency_keys;
  v_until timestamptz := case when p_claim_id is not null then dialectic.clock() + p_lease end;
begin
  insert into dialectic.idempotency_keys
    (tenant_id, user_id, key, request_sha256, effect_id, claim_id, claimed_until)
  values
    (dialectic.current_tenant(), p_user_id, p_key, p_request_sha256, p_effect_id, p_claim_id, v_until)
  on conflict (tenant_id, user_id, key) do nothing;
  if found then
    state := 'taken';
    effect_id := p_effect_id;
    return;
  end if;
  select k.* into v_row from dialectic.idempotency_keys k
  where k.tenant_id = dialectic.current_tenant() and k.user_id = p_user_id and k.key = p_key
  for no key update;
  effect_id := v_row.effect_id;
  if v_row.request_sha256 is null then
    state := 'busy';  -- the row was deleted between the two statements
  elsif v_row.request_sha256 <> p_request_sha256 then
    state := 'other';
  elsif v_row.status is not null then
    state := 'answered';
    status := v_row.status;
    headers := v_row.headers;
    body := v_row.body;
  elsif v_row.claimed_until > dialectic.clock() then
    state := 'busy';
  else
    update dialectic.idempotency_keys k
    set claim_id = p_claim_id, claimed_until = v_until
    where k.tenant_id = v_row.tenant_id and k.user_id = p_user_id and k.key = p_key;
    state := 'taken';
  end if;
end
$$;
