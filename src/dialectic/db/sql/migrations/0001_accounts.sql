-- Tenants, users, access tokens and idempotency keys.
--
-- Every other row belongs to exactly one tenant. Every tenant table starts its keys with tenant_id,
-- so that a foreign key or a unique index can never tell one tenant what another one has.
-- bindings.sql puts row-level security on all of them.

create table tenants (
  id uuid primary key,
  name text not null check (length(name) between 1 and 200),
  kind text not null check (kind in ('personal', 'organization')),
  created_at timestamptz not null default dialectic.now()
);

create table users (
  id uuid primary key,
  name text not null unique check (length(name) between 1 and 200),
  created_at timestamptz not null default dialectic.now()
);

create table memberships (
  tenant_id uuid not null references tenants (id) on delete cascade,
  user_id uuid not null references users (id) on delete cascade,
  role text not null check (role in ('owner', 'admin', 'member')),
  -- How this user wants the pages of this tenant: theme, keys, messages, councils.
  preferences jsonb not null default '{}' check (length(preferences::text) <= 20000),
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, user_id)
);

-- A secret that its holder sends with every request. Only its SHA-256 is kept: 256 random bits need
-- no slower hash. A browser's session is a row here too; it stands for the token it was begun with
-- and ends with that token. The token may act in another tenant, so no foreign key leads to it.
create table access_tokens (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  user_id uuid not null,
  kind text not null check (kind in ('api', 'browser')),
  name text not null check (length(name) between 1 and 200),
  secret_sha256 bytea not null check (length(secret_sha256) = 32),
  scopes text[] not null
    check (scopes <> '{}' and scopes <@ array['read', 'write', 'spend', 'admin']),
  stands_for_tenant_id uuid,
  stands_for_token_id uuid,
  created_at timestamptz not null default dialectic.now(),
  expires_at timestamptz not null,
  -- Written at most every five minutes.
  last_used_at timestamptz,
  revoked_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, user_id) references memberships (tenant_id, user_id) on delete cascade,
  constraint a_session_stands_for_a_token check (
    (kind = 'browser') = (stands_for_token_id is not null)
    and (kind = 'browser') = (stands_for_tenant_id is not null))
);
-- Looked up before the tenant is known. Two tenants could meet in it only with two equal secrets.
create unique index tokens_by_secret on access_tokens (secret_sha256);
create index tokens_of_a_user on access_tokens (tenant_id, user_id);
create index sessions_by_end on access_tokens (expires_at) where kind = 'browser';

-- The rate limit of a token: up to when the requests let through so far use up what a minute
-- allows. Belongs to no tenant; only functions touch it. A crash of the server may lose it.
create unlogged table request_buckets (
  token_id uuid primary key,
  filled_until timestamptz not null
) with (fillfactor = 20);  -- every request updates the one row of its token

-- The answers to requests that carried an Idempotency-Key. A row without a status is a request in
-- progress: claimed in a commit of its own, for as long as the claim is renewed. The next claimant
-- works under the same effect_id.
create table idempotency_keys (
  tenant_id uuid not null references tenants (id) on delete cascade,
  user_id uuid not null references users (id) on delete cascade,
  key text not null check (length(key) between 1 and 255),
  request_sha256 bytea not null check (length(request_sha256) = 32),
  effect_id uuid not null,
  claim_id uuid,
  claimed_until timestamptz,
  status smallint check (status between 200 and 599),
  headers jsonb,
  body bytea,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, user_id, key),
  constraint an_answer_is_whole check (
    (status is null) = (headers is null) and (status is null) = (body is null))
);
create index keys_by_age on idempotency_keys (created_at);
