-- What was deleted while someone may have shown it. Followers are told, and then it is pruned.
create table dialectic_removals (
  tenant_id uuid not null references tenants (id) on delete cascade,
  kind text not null check (kind in ('project', 'chat', 'feedback')),
  id uuid not null,
  session_id uuid,
  removed_at timestamptz not null default dialectic.now(),
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, kind, id)
);
create index removals_changed on dialectic_removals (tenant_id, changed_in);
