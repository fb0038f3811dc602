-- Answers that are cut off: what was said turn by turn, until the document is whole.

insert into dialectic_job_moves (from_status, to_status, meaning) values
  ('processing', 'pending_continuation', 'a turn is saved and another is due');

-- One turn of a document that took several. A chunk is no contribution: whoever lists documents never
-- meets one. Written once and never changed.
create table dialectic_chunks (
  tenant_id uuid not null,
  -- Derived from the job and the turn, so that a turn is saved once.
  id uuid not null,
  session_id uuid not null,
  job_id uuid,
  -- The document that all turns together become. It is not there before the last of them.
  root_contribution_id uuid not null,
  turn_index integer not null check (turn_index >= 0),
  stage text not null,
  iteration_number integer not null check (iteration_number >= 1),
  model_name text not null,
  -- The words of the first turn's prompt: every further turn asks the same, whatever is said or
  -- edited in between.
  opening jsonb,
  content text not null,
  storage_path text not null,
  raw_response_storage_path text not null,
  mime_type text not null default 'text/markdown',
  size_bytes bigint not null check (size_bytes >= 0),
  tokens_used_input integer not null check (tokens_used_input >= 0),
  tokens_used_output integer not null check (tokens_used_output >= 0),
  usage_source text not null check (usage_source in ('reported', 'counted')),
  finish_reason text not null check (finish_reason in ('stop', 'length')),
  raw_finish_reason text,
  provider_request_id text,
  processing_time_ms integer not null check (processing_time_ms >= 0),
  flags text[] not null default '{}',
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, job_id) references dialectic_generation_jobs (tenant_id, id) on delete cascade,
  foreign key (tenant_id, storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  foreign key (tenant_id, raw_response_storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  unique (tenant_id, root_contribution_id, turn_index),
  unique (tenant_id, storage_path),
  constraint only_the_first_turn_opens check (turn_index = 0 or opening is null)
);
create unique index one_chunk_per_turn_of_a_job on dialectic_chunks (tenant_id, job_id, turn_index)
  where job_id is not null;
create index chunks_of_a_session on dialectic_chunks (tenant_id, session_id);
