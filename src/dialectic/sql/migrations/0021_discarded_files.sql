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
