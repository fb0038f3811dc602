-- Who there is. Everything else belongs to exactly one tenant.
-- Every tenant table starts its keys with tenant_id, so that a foreign key or a unique index can
-- never tell one tenant what another one has. Row-level security is put on by functions/policies.sql.

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
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, user_id)
);

-- One wallet per user and one for the tenant as a whole (user_id is null).
-- Whole credits; one credit is one millionth of a US dollar.
create table token_wallets (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  user_id uuid references users (id),
  balance_credits bigint not null default 0,
  held_credits bigint not null default 0,
  is_count_only boolean not null default false,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  constraint wallet_holds_are_not_negative check (held_credits >= 0),
  constraint wallet_is_never_overdrawn check (is_count_only or balance_credits >= held_credits)
);
create unique index one_wallet_per_user on token_wallets (tenant_id, user_id) nulls not distinct;

-- What happened to a wallet, once and for ever: rows are added, never changed.
create table token_wallet_transactions (
  tenant_id uuid not null,
  id bigint generated always as identity,
  wallet_id uuid not null,
  transaction_type text not null check (length(transaction_type) between 1 and 64),
  amount_credits bigint not null check (amount_credits <> 0),
  balance_after_credits bigint not null,
  idempotency_key text not null,
  related_entity_type text,
  related_entity_id uuid,
  recorded_by_user_id uuid references users (id),
  notes text,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, wallet_id) references token_wallets (tenant_id, id),
  unique (tenant_id, wallet_id, idempotency_key)
);
