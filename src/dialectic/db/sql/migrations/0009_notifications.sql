-- Notifications: events that drive views, and messages to people.

-- Written in the commit it tells of. The number a client resumes from (seq) is given when the row
-- is first read, under a lock: a transaction that commits late gets a later number, so a client
-- that has seen number k never misses one. Writers take no lock for it; rows without a number are
-- found by the unique index. The session leads to the tenant and to its owner: references to them
-- would be looked up and locked at every insert.
create table notifications (
  tenant_id uuid not null,
  id bigint generated always as identity,
  seq bigint,
  user_id uuid,
  session_id uuid,
  type text not null,
  title text,
  message text,
  link_path text,
  data jsonb not null default '{}',
  is_internal_event boolean not null default false,
  -- Of a message to a user: the next step, and what it is about. A user is told of a cause once,
  -- until it is resolved.
  remedy jsonb,
  cause text,
  read_at timestamptz,
  resolved_at timestamptz,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  unique (tenant_id, seq)
);
-- Messages to users are few among the events, and are listed separately.
create index notifications_to_people on notifications (tenant_id, id) where not is_internal_event;
create unique index one_open_notification_per_cause on notifications (tenant_id, cause, user_id)
  nulls not distinct where cause is not null and resolved_at is null;

-- Events are pruned after a while. The highest pruned number is kept, so that a client that resumes
-- from an earlier number learns that it missed events.
create table notification_counters (
  tenant_id uuid primary key references tenants (id) on delete cascade,
  last_seq bigint not null default 0,
  pruned_seq bigint not null default 0
);

-- When listeners were last notified, in milliseconds: a sequence, because all transactions see its
-- value at once without a lock. A server crash may lose it.
create unlogged sequence news_hints;
