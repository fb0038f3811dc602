-- Files of deleted projects that still stand in storage. A row is written in the commit that deletes
-- the project and goes when its file has gone: whoever deletes may die at any moment between. The
-- folder belongs to nobody else until then.
create table dialectic_discarded_files (
  tenant_id uuid not null references tenants (id),
  path text not null check (length(path) between 1 and 1024),
  folder text not null generated always as (split_part(path, '/', 1)) stored,
  -- From when on nobody can still be writing it: then it is gone for good once it is deleted.
  settled_at timestamptz not null default dialectic.now(),
  -- When it is anyone's turn to delete it.
  due_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, path)
);
create index discarded_files_of_a_folder on dialectic_discarded_files (tenant_id, folder);
create index discarded_files_due on dialectic_discarded_files (due_at);

-- What happens in any process and leaves no row of its own, counted for those who watch. Belongs to no
-- tenant and is touched by functions alone.
create table dialectic_tallies (
  name text primary key check (length(name) between 1 and 100),
  count bigint not null check (count >= 0)
);

-- Calls whose provider counts otherwise than we do, which someone should look at: few among many.
create index holds_doubted on token_wallet_holds (tenant_id, hold_key) where reported_usage is not null;
create index overruns on token_wallet_transactions (tenant_id, is_play, amount_credits)
  where transaction_type = 'overrun';

-- It tells more from now on; its new form is applied with the other functions.
drop function if exists dialectic.load_figures();
