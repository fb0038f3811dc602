-- Files in storage: the store, the files of projects, and the files to delete.

-- The id of this database's store, which lies in the store too, and the place where it was last
-- seen, for people. There is one row: documents in two stores would be scattered.
create table dialectic_storage (
  is_the_one boolean primary key default true check (is_the_one),
  store_id uuid not null,
  place text not null
);

-- Every file of a project. The commit that refers to a file also holds its bytes here until they
-- are durable in storage; then the row keeps only name, size and hash. There is a foreign key to
-- the project only: one to the tenant would be looked up and locked at every insert.
create table dialectic_files (
  tenant_id uuid not null,
  path text not null check (length(path) between 1 and 1024),
  project_id uuid not null,
  mime_type text not null,
  size_bytes bigint not null check (size_bytes >= 0),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  content bytea,
  written_at timestamptz,
  -- In a work folder: the hashes of what we wrote here before. Other bytes are a person's.
  earlier_sha256 text[] not null default '{}',
  -- In a work folder: a superseded file, which is deleted if it is still as we wrote it.
  is_withdrawn boolean not null default false,
  -- When another process than the one that made it last tried to write it.
  tried_at timestamptz,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, path),
  foreign key (tenant_id, project_id) references dialectic_projects (tenant_id, id) on delete cascade,
  constraint bytes_wait_until_written check ((content is null) = (written_at is not null))
);
create index files_waiting on dialectic_files (tried_at nulls first, created_at)
  where written_at is null;
create index files_of_a_project on dialectic_files (tenant_id, project_id);

-- Files of deleted projects that are still in storage. The commit that deletes the project inserts
-- the rows; a row is removed after its file, because the deleting process may die at any time.
-- Until then no other project can use the folder.
create table dialectic_discarded_files (
  tenant_id uuid not null references tenants (id),
  path text not null check (length(path) between 1 and 1024),
  folder text not null generated always as (split_part(path, '/', 1)) stored,
  -- The time from which on no process can still be writing the file: a deletion is then final.
  settled_at timestamptz not null default dialectic.now(),
  -- When a process may next try to delete it.
  due_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, path)
);
create index discarded_files_of_a_folder on dialectic_discarded_files (tenant_id, folder);
create index discarded_files_due on dialectic_discarded_files (due_at);
