-- Who comes in, and what was answered to a request that is sent twice.

-- A secret that its holder shows with every request. Only its SHA-256 is kept: 256 random bits need
-- no slower one. A browser's session is one too; it stands for the token it was begun with and is
-- worth nothing without it. That one may act in another tenant, so no foreign key leads to it.
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
  -- Written seldom: true to within five minutes.
  last_used_at timestamptz,
  revoked_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, user_id) references memberships (tenant_id, user_id) on delete cascade,
  constraint a_session_stands_for_a_token check (
    (kind = 'browser') = (stands_for_token_id is not null)
    and (kind = 'browser') = (stands_for_tenant_id is not null))
);
-- Looked up before a tenant is known. That two tenants meet in it would take two equal secrets.
create unique index tokens_by_secret on access_tokens (secret_sha256);
create index tokens_of_a_user on access_tokens (tenant_id, user_id);
create index sessions_by_end on access_tokens (expires_at) where kind = 'browser';

-- How full the bucket of a token is: up to when the requests let through so far use up what a minute
-- allows. Belongs to no tenant, is touched by functions alone, and may be lost in a crash.
create unlogged table request_buckets (
  token_id uuid primary key,
  filled_until timestamptz not null
);
-- Every request writes the one row of its token.
alter table request_buckets set (fillfactor = 20);

-- What was answered to a request that named itself. A row without a status is one in progress: it was
-- claimed in a commit of its own, for as long as the claim is renewed; whoever claims it after that
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
