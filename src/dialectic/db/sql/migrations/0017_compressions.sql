-- Prompts that are too long for their model: what was made of their texts, so that it is made and paid
-- for once, and what each prompt was made of.

-- The vectors of one text, as one embedder made them, piece by piece.
create table dialectic_text_vectors (
  tenant_id uuid not null,
  -- Derived from the text and the embedder.
  id uuid not null,
  -- For whom it was made; others of the tenant may use it, and it goes when that session does.
  session_id uuid not null,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  embedder text not null,
  -- Which attempt makes it. Nobody else pays for the same as long as that attempt lives.
  job_id uuid not null,
  attempt integer not null,
  -- Where its pieces begin and end, and the headings they stand under.
  pieces jsonb,
  -- All numbers of all vectors, four bytes each, the lowest first.
  vectors bytea,
  tokens bigint check (tokens >= 0),
  cost_credits bigint not null default 0 check (cost_credits >= 0),
  -- What it was paid out of; null if it cost nothing.
  hold_key text,
  created_at timestamptz not null default dialectic.now(),
  completed_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  unique (tenant_id, content_hash, embedder),
  constraint vectors_are_there_when_it_is_done
    check ((completed_at is null) = (vectors is null) and (vectors is null) = (pieces is null))
);
create index text_vectors_of_a_session on dialectic_text_vectors (tenant_id, session_id);

-- One text made shorter for one purpose, to at most so many tokens of one tokenizer.
create table dialectic_compressions (
  tenant_id uuid not null,
  -- Derived from all that it depends on.
  id uuid not null,
  session_id uuid not null,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  purpose_hash text not null check (purpose_hash ~ '^[0-9a-f]{64}$'),
  -- With its version, and whoever it asks.
  compressor text not null,
  tokenizer text not null,
  budget_tokens integer not null check (budget_tokens > 0),
  job_id uuid not null,
  attempt integer not null,
  content text,
  tokens_before integer check (tokens_before >= 0),
  tokens_after integer check (tokens_after between 0 and budget_tokens),
  cost_credits bigint not null default 0 check (cost_credits >= 0),
  hold_key text,
  created_at timestamptz not null default dialectic.now(),
  completed_at timestamptz,
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  unique (tenant_id, content_hash, purpose_hash, compressor, tokenizer, budget_tokens),
  constraint a_text_is_there_when_it_is_done check ((completed_at is null) = (content is null))
);
create index compressions_of_a_session on dialectic_compressions (tenant_id, session_id);

-- What the prompt of an answer was made of; null for answers from before, and for what people wrote.
alter table dialectic_contributions add column manifest jsonb;
alter table dialectic_chunks add column manifest jsonb;
