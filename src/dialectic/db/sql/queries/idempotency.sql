-- Statements of db/tables/idempotency.py: idempotency keys and stored responses.

-- name: claim
select state, effect_id, status, headers, body from dialectic.claim_key($1, $2, $3, $4, $5, $6)

-- name: remember
update idempotency_keys
set status = $4, headers = $5, body = $6, claim_id = null, claimed_until = null
where user_id = $1 and key = $2 and claim_id is not distinct from $3 and status is null
returning true

-- name: renew
update idempotency_keys set claimed_until = dialectic.clock() + $4::interval
where user_id = $1 and key = $2 and claim_id = $3 and status is null
returning true

-- name: forget
delete from idempotency_keys
where user_id = $1 and key = $2 and claim_id = $3 and status is null
