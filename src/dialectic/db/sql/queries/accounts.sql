-- Statements of db/tables/accounts.py: users, tokens, organisations.

-- name: find_token
select tenant_id, user_id, token_id, kind, scopes, expires_at, is_expired, wait_s
from dialectic.find_token($1, $2)

-- name: has_tokens
select dialectic.has_tokens() as has_tokens

-- name: list_ended_tokens
select dialectic.list_ended_tokens($1, $2) as token_id

-- name: add_account
select tenant_id, user_id, wallet_id from dialectic.add_account($1)

-- name: find_account
select tenant_id, user_id, wallet_id from dialectic.find_account($1)

-- name: list_users
select name, created_at, tokens from dialectic.list_users()

-- name: insert_token
-- Idempotent: a retry after a lost commit response finds the existing row.
insert into access_tokens
  (tenant_id, id, user_id, kind, name, secret_sha256, scopes, expires_at,
   stands_for_tenant_id, stands_for_token_id)
values ($1, $2, $3, $4, $5, $6, $7, dialectic.now() + $8::interval, $9, $10)
on conflict (tenant_id, id) do update set id = excluded.id
returning expires_at

-- name: count_tokens
select count(*) from access_tokens
where user_id = $1 and kind = 'api' and revoked_at is null and expires_at > dialectic.now()

-- name: list_tokens
-- The user's own tokens; a user who manages the members sees all.
select t.id, t.user_id, u.name as user_name, t.name, t.scopes, t.created_at, t.expires_at,
  t.last_used_at
from access_tokens t
join users u on u.id = t.user_id
where t.kind = 'api' and t.revoked_at is null and (t.user_id = $1 or exists (
  select from memberships m where m.user_id = $1 and m.role in ('owner', 'admin')))
order by t.created_at, t.id

-- name: revoke_token
-- Browser sessions that were started with the token end with it.
update access_tokens t set revoked_at = coalesce(t.revoked_at, dialectic.now())
where t.id = $1 and (t.user_id = $2 or exists (
  select from memberships m where m.user_id = $2 and m.role in ('owner', 'admin')))
returning t.id

-- name: revoke_sessions
-- All browser sessions of a user in this tenant.
update access_tokens set revoked_at = dialectic.now()
where user_id = $1 and kind = 'browser' and revoked_at is null

-- name: find_root
-- The token that a browser session was started with.
select stands_for_tenant_id, stands_for_token_id from access_tokens
where id = $1 and kind = 'browser' and revoked_at is null

-- name: find_wallet
-- The user's own wallet, or the organisation's.
select w.id from token_wallets w
join tenants t on t.id = w.tenant_id
where w.user_id is not distinct from case when t.kind = 'personal' then $1::uuid end

-- name: create_organization
select dialectic.create_organization($1, $2)

-- name: set_member
select dialectic.set_member($1, $2, $3)

-- name: remove_member
select dialectic.remove_member($1, $2)

-- name: list_members
select m.user_id, u.name, m.role, m.created_at
from memberships m
join users u on u.id = m.user_id
order by m.created_at, m.user_id

-- name: list_tenants
select id, name, kind, role from dialectic.list_tenants($1)

-- name: sweep
select dialectic.sweep_access($1, $2)

-- name: find_role
select role from memberships where user_id = $1

-- name: load_profile
-- A user in this tenant, as they see themselves.
select u.name, m.preferences,
  (select count(*) from notifications n
    where n.read_at is null and not n.is_internal_event
      and (n.user_id = $1 or n.user_id is null))::integer as unread
from memberships m
join users u on u.id = m.user_id
where m.user_id = $1

-- name: change_preferences
-- Null removes a preference, so that the default holds again.
update memberships set preferences = jsonb_strip_nulls(preferences || $2::jsonb)
where user_id = $1
returning preferences

-- name: renew_session
-- The token that it was started with still ends it.
update access_tokens set expires_at = dialectic.now() + $2::interval
where id = $1 and kind = 'browser' and revoked_at is null
returning expires_at
