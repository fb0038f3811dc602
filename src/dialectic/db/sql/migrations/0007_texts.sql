-- Texts: contributions, the chunks they are built from, resources, feedback and chats.

create table dialectic_contributions (
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  job_id uuid,
  user_id uuid references users (id),
  model_id uuid,
  model_name text not null,
  -- Which of the session's models wrote it, from 1.
  model_index integer check (model_index >= 1),
  stage text not null,
  iteration_number integer not null check (iteration_number >= 1),
  contribution_type text not null,
  -- Its place among that model's contributions of its type, from 1, known before any exists.
  rank integer check (rank >= 1),
  -- The place, among all theses, of the one it descends from.
  origin integer check (origin >= 1),
  -- Two different relations, two columns: the thesis it descends from, and what it is about.
  source_group uuid,
  target_contribution_id uuid,
  -- What it was made from, in the order in which it was read.
  source_contribution_ids uuid[] not null default '{}',
  -- The version that was read of each of them, one for one; empty if that is unknown.
  read_version_ids uuid[] not null default '{}',
  -- A hash of what the model was asked; null for texts by users.
  words_hash text check (words_hash ~ '^[0-9a-f]{64}$'),
  is_intermediate boolean not null default false,
  is_incomplete boolean not null default false,
  -- One of its sources has changed since.
  is_stale boolean not null default false,
  flags text[] not null default '{}',
  -- What a card shows of it: made when it is saved.
  title text not null default '',
  excerpt text not null default '',
  words integer not null default 0 check (words >= 0),
  content text not null,
  storage_path text not null,
  raw_response_storage_path text,
  mime_type text not null default 'text/markdown',
  size_bytes bigint not null check (size_bytes >= 0),
  prompt_template_name text,
  -- The parts of its prompt; null for texts by users.
  manifest jsonb,
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
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, job_id) references dialectic_generation_jobs (tenant_id, id) on delete cascade,
  foreign key (tenant_id, model_id) references ai_providers (tenant_id, id),
  foreign key (tenant_id, source_group) references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, target_contribution_id) references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, original_model_contribution_id)
    references dialectic_contributions (tenant_id, id),
  foreign key (tenant_id, storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  foreign key (tenant_id, raw_response_storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  unique (tenant_id, storage_path),
  constraint only_a_later_version_has_an_original
    check ((edit_version > 1) = (original_model_contribution_id is not null)),
  constraint each_source_has_one_version
    check (cardinality(read_version_ids) in (0, cardinality(source_contribution_ids)))
);
-- A job writes one contribution, however often it crashes and reruns.
create unique index one_contribution_per_job on dialectic_contributions (tenant_id, job_id)
  where job_id is not null;
create index contributions_changed on dialectic_contributions (tenant_id, changed_in);
create index contributions_of_a_stage
  on dialectic_contributions (tenant_id, session_id, iteration_number, stage);
create unique index versions_of_a_contribution
  on dialectic_contributions (tenant_id, original_model_contribution_id, edit_version)
  where original_model_contribution_id is not null;

-- A contribution names its job and a job the contribution it is about: the second of the two
-- references comes last.
alter table dialectic_generation_jobs
  add foreign key (tenant_id, target_contribution_id)
  references dialectic_contributions (tenant_id, id);

-- One turn of a document that took several, because its answer was cut off. Lists of documents
-- never show chunks. Written once and never changed.
create table dialectic_chunks (
  tenant_id uuid not null,
  -- Derived from the job and the turn, so that a turn is saved once.
  id uuid not null,
  session_id uuid not null,
  job_id uuid,
  -- The document that all turns together become. It does not exist before the last of them.
  root_contribution_id uuid not null,
  turn_index integer not null check (turn_index >= 0),
  stage text not null,
  iteration_number integer not null check (iteration_number >= 1),
  model_name text not null,
  -- The words of the first turn's prompt: every further turn asks the same, even if something is
  -- edited in between.
  opening jsonb,
  content text not null,
  storage_path text not null,
  raw_response_storage_path text not null,
  mime_type text not null default 'text/markdown',
  size_bytes bigint not null check (size_bytes >= 0),
  -- The parts of its prompt.
  manifest jsonb,
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

create table dialectic_project_resources (
  tenant_id uuid not null,
  id uuid not null,
  project_id uuid not null,
  user_id uuid not null references users (id),
  resource_type text not null,
  session_id uuid,
  iteration_number integer check (iteration_number >= 1),
  stage_slug text,
  -- The contribution that a document was extracted from, and its key among the promised documents.
  source_contribution_id uuid,
  document_key text,
  content text not null,
  storage_path text not null,
  mime_type text not null,
  size_bytes bigint not null check (size_bytes >= 0),
  notes text[] not null default '{}',
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, project_id) references dialectic_projects (tenant_id, id) on delete cascade,
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, source_contribution_id)
    references dialectic_contributions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, storage_path) references dialectic_files (tenant_id, path)
    deferrable initially deferred,
  unique (tenant_id, storage_path)
);
create index resources_of_a_project on dialectic_project_resources (tenant_id, project_id, resource_type);
create index documents_of_a_contribution
  on dialectic_project_resources (tenant_id, source_contribution_id)
  where source_contribution_id is not null;

create table dialectic_feedback (
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  user_id uuid not null references users (id),
  stage_slug text not null,
  iteration_number integer not null check (iteration_number >= 1),
  target_contribution_id uuid,
  feedback_type text not null check (feedback_type in ('stage', 'response', 'rating', 'ruling')),
  content text not null default '',
  rating integer check (rating between 1 and 5),
  -- A ruling decides a claim or a dissent, which are derived from texts: what it is about, the words
  -- that it upholds, and those that it rejects.
  subject_id uuid,
  subject text check (length(subject) between 1 and 2000),
  verdict text check (verdict in ('keep', 'change', 'drop', 'own')),
  position_id uuid,
  upheld text,
  rejected text[],
  -- When it was withdrawn or replaced. It is kept, and no later prompt has it.
  withdrawn_at timestamptz,
  created_at timestamptz not null default dialectic.now(),
  -- When its author changed it.
  updated_at timestamptz,
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, target_contribution_id) references dialectic_contributions (tenant_id, id),
  constraint a_rating_is_of_something
    check ((feedback_type = 'rating') = (rating is not null) and (rating is null or target_contribution_id is not null)),
  constraint a_ruling_decides_something check (
    (feedback_type = 'ruling') = (subject_id is not null and subject is not null and verdict is not null))
);
create unique index one_ruling_counts on dialectic_feedback (tenant_id, session_id, subject_id)
  where withdrawn_at is null;
create index feedback_changed on dialectic_feedback (tenant_id, changed_in);
create index feedback_of_a_stage
  on dialectic_feedback (tenant_id, session_id, iteration_number, stage_slug);

-- A link to a session's report, for people without an account. Only the hash of its secret is kept,
-- and of its pass phrase a slow one. A share that is revoked is deleted.
create table dialectic_shares (
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  user_id uuid not null references users (id),
  secret_sha256 bytea not null check (length(secret_sha256) = 32),
  pass_salt bytea check (length(pass_salt) = 16),
  pass_hash bytea check (length(pass_hash) = 32),
  has_drafts boolean not null,
  has_names boolean not null,
  created_at timestamptz not null default dialectic.now(),
  expires_at timestamptz not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  constraint a_pass_phrase_has_a_salt check ((pass_salt is null) = (pass_hash is null))
);
-- Looked up before the tenant is known.
create unique index shares_by_secret on dialectic_shares (secret_sha256);
create index shares_of_a_session on dialectic_shares (tenant_id, session_id);

create table chats (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  user_id uuid not null references users (id),
  title text not null,
  system_prompt text not null default '',
  created_at timestamptz not null default dialectic.now(),
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id)
);
create index chats_changed on chats (tenant_id, changed_in);

-- A question and its answer are written in one commit.
create table chat_messages (
  tenant_id uuid not null,
  id uuid not null,
  chat_id uuid not null,
  -- The order of messages: within one commit the clock does not tell it.
  position bigint generated always as identity,
  user_id uuid references users (id),
  role text not null check (role in ('user', 'assistant', 'system')),
  content text not null,
  model_id uuid,
  model_name text,
  token_usage jsonb,
  finish_reason text check (finish_reason in ('stop', 'length', 'tool', 'filter', 'error')),
  is_incomplete boolean not null default false,
  flags text[] not null default '{}',
  is_active_in_thread boolean not null default true,
  response_to_message_id uuid,
  -- The message before it in its thread: a question that replaces another begins a branch.
  previous_message_id uuid,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, chat_id) references chats (tenant_id, id) on delete cascade,
  foreign key (tenant_id, model_id) references ai_providers (tenant_id, id),
  foreign key (tenant_id, response_to_message_id) references chat_messages (tenant_id, id),
  foreign key (tenant_id, previous_message_id) references chat_messages (tenant_id, id),
  constraint an_answer_says_whose_it_is check ((role = 'assistant') = (model_name is not null))
);
create index messages_of_a_chat on chat_messages (tenant_id, chat_id, position);
