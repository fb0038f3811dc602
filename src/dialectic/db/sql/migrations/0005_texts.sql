-- What was written: contributions, feedback, chats, searchable pieces, and the news of it all.

create table dialectic_contributions (
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  job_id uuid,
  user_id uuid references users (id),
  model_id uuid,
  model_name text not null,
  stage text not null,
  iteration_number integer not null check (iteration_number >= 1),
  contribution_type text not null,
  -- Three different relations, three columns: the thesis it descends from, the chain of turns it
  -- is a part of, and what it is about.
  source_group uuid,
  root_contribution_id uuid not null,
  turn_index integer not null default 0 check (turn_index >= 0),
  target_contribution_id uuid,
  is_intermediate boolean not null default false,
  is_incomplete boolean not null default false,
  flags text[] not null default '{}',
  content text not null,
  storage_path text not null,
  raw_response_storage_path text,
  mime_type text not null default 'text/markdown',
  size_bytes bigint not null check (size_bytes >= 0),
  prompt_template_name text,
  tokens_used_input integer check (tokens_used_input >= 0),
  tokens_used_output integer check (tokens_used_output >= 0),
  usage_source text check (usage_source in ('reported', 'counted')),
  finish_reason text check (finish_reason in ('stop', 'length', 'tool', 'filter', 'error')),
  raw_finish_reason text,
  provider_request_id text,
  processing_time_ms integer check (processing_time_ms >= 0),
  edit_version integer not null default 1 check (edit_version >= 1),
  is_latest_edit boolean not null default true,
  original_model_contribution_id uuid,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, job_id) references dialectic_generation_jobs (tenant_id, id) on delete cascade,
  foreign key (tenant_id, model_id) references ai_providers (tenant_id, id),
  foreign key (tenant_id, source_group) references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, root_contribution_id) references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, target_contribution_id) references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, original_model_contribution_id)
    references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  foreign key (tenant_id, raw_response_storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  unique (tenant_id, storage_path),
  constraint the_first_turn_is_the_root check ((turn_index = 0) = (root_contribution_id = id) or edit_version > 1)
);
-- A job writes one contribution, whatever dies and runs again.
create unique index one_contribution_per_job on dialectic_contributions (tenant_id, job_id)
  where job_id is not null;
create unique index one_chunk_per_turn
  on dialectic_contributions (tenant_id, root_contribution_id, turn_index, edit_version);
create index contributions_of_a_stage
  on dialectic_contributions (tenant_id, session_id, iteration_number, stage);

alter table dialectic_generation_jobs
  add foreign key (tenant_id, target_contribution_id)
  references dialectic_contributions (tenant_id, id);

create table dialectic_feedback (
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  user_id uuid not null references users (id),
  stage_slug text not null,
  iteration_number integer not null check (iteration_number >= 1),
  target_contribution_id uuid,
  feedback_type text not null check (feedback_type in ('stage', 'response', 'rating')),
  content text not null default '',
  rating integer check (rating between 1 and 5),
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, target_contribution_id) references dialectic_contributions (tenant_id, id),
  constraint a_rating_is_of_something
    check ((feedback_type = 'rating') = (rating is not null) and (rating is null or target_contribution_id is not null))
);
create index feedback_of_a_stage
  on dialectic_feedback (tenant_id, session_id, iteration_number, stage_slug);

-- Pieces of documents, for search. A vector is only ever compared with others of its own model.
create table dialectic_memory (
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  source_contribution_id uuid,
  source_resource_id uuid,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  position integer not null check (position >= 0),
  heading_path text not null default '',
  content text not null,
  token_count integer not null check (token_count >= 0),
  embedding_model text not null,
  embedding vector not null,
  fts tsvector generated always as (to_tsvector('english', content)) stored,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, source_contribution_id)
    references dialectic_contributions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, source_resource_id)
    references dialectic_project_resources (tenant_id, id) on delete cascade,
  constraint a_piece_has_one_source
    check (num_nonnulls(source_contribution_id, source_resource_id) = 1)
);
create index memory_of_a_session on dialectic_memory (tenant_id, session_id, embedding_model);

create table chats (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  user_id uuid not null references users (id),
  title text not null,
  system_prompt text not null default '',
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id)
);

create table chat_messages (
  tenant_id uuid not null,
  id uuid not null,
  chat_id uuid not null,
  user_id uuid references users (id),
  role text not null check (role in ('user', 'assistant', 'system')),
  content text not null,
  model_id uuid,
  token_usage jsonb,
  is_active_in_thread boolean not null default true,
  response_to_message_id uuid,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, chat_id) references chats (tenant_id, id) on delete cascade,
  foreign key (tenant_id, model_id) references ai_providers (tenant_id, id),
  foreign key (tenant_id, response_to_message_id) references chat_messages (tenant_id, id)
);
create index messages_of_a_chat on chat_messages (tenant_id, chat_id, created_at);

-- News, written in the commit it tells of. The number a client resumes from (seq) is given when the
-- row is first read, under a lock: a transaction that commits late gets a later number, so a client
-- that has seen number k never misses one. Writers take no lock for it.
create table notifications (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id bigint generated always as identity,
  seq bigint,
  user_id uuid references users (id),
  session_id uuid,
  type text not null,
  title text,
  message text,
  link_path text,
  data jsonb not null default '{}',
  is_internal_event boolean not null default false,
  read_at timestamptz,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  unique (tenant_id, seq)
);
create index notifications_without_number on notifications (tenant_id, id) where seq is null;

create table notification_counters (
  tenant_id uuid primary key references tenants (id) on delete cascade,
  last_seq bigint not null default 0
);
