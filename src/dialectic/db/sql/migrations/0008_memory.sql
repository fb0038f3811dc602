-- Texts as pieces, vectors and words, for search; and compressed versions of long texts.

-- Indexed sources: one row per text and embedder. The same commit inserts the pieces and words
-- below; deleting the row cascades to them.
create table dialectic_memory_sources (
  tenant_id uuid not null,
  source_id uuid not null,
  embedding_model text not null check (length(embedding_model) between 1 and 256),
  project_id uuid not null,
  session_id uuid,
  -- The hash of the text and of the splitting method: a changed hash is indexed again.
  source_hash text not null check (source_hash ~ '^[0-9a-f]{64}$'),
  dimensions integer not null check (dimensions between 1 and 16000),
  piece_count integer not null check (piece_count >= 0),
  word_count bigint not null default 0 check (word_count >= 0),
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, source_id, embedding_model),
  foreign key (tenant_id, project_id) references dialectic_projects (tenant_id, id) on delete cascade,
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade
);
create index memory_sources_of_a_project
  on dialectic_memory_sources (tenant_id, project_id, embedding_model);
create index memory_sources_of_a_session on dialectic_memory_sources (tenant_id, session_id);

-- A piece of a text. Its vector is only ever compared with others of its own model.
create table dialectic_memory_pieces (
  tenant_id uuid not null,
  id bigint generated always as identity,
  project_id uuid not null,
  source_id uuid not null,
  embedding_model text not null,
  position integer not null check (position >= 0),
  start_offset integer not null check (start_offset >= 0),
  end_offset integer not null check (end_offset > start_offset),
  heading_path text[] not null default '{}',
  content text not null,
  token_count integer not null check (token_count >= 0),
  -- The hash of the embedder's input: an equal piece elsewhere has the same vector and is not
  -- embedded again.
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  dimensions integer not null,
  embedding vector not null,
  -- Whether a vector index below contains it. An index insert costs milliseconds, so the first
  -- thousands of pieces of a project are not indexed but compared one by one.
  is_graphed boolean not null,
  -- Headings and text, by the English stemmer.
  fts tsvector not null,
  word_count integer not null check (word_count >= 0),
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  foreign key (tenant_id, source_id, embedding_model)
    references dialectic_memory_sources (tenant_id, source_id, embedding_model) on delete cascade,
  unique (tenant_id, source_id, embedding_model, position),
  constraint a_vector_has_its_size check (vector_dims(embedding) = dimensions)
);
-- Store the vector inline, not in TOAST: every exact search reads it. `create table` accepts this
-- from version 16 on.
alter table dialectic_memory_pieces alter column embedding set storage main;
create index memory_of_a_project on dialectic_memory_pieces (tenant_id, project_id, embedding_model, is_graphed);
create index memory_by_content on dialectic_memory_pieces (tenant_id, embedding_model, content_hash);

-- An index can hold vectors of one size only, and of at most 2,000 numbers. Others are searched
-- exactly.
create index memory_vectors_256 on dialectic_memory_pieces
  using hnsw ((embedding::vector(256)) vector_cosine_ops) where is_graphed and dimensions = 256;
create index memory_vectors_384 on dialectic_memory_pieces
  using hnsw ((embedding::vector(384)) vector_cosine_ops) where is_graphed and dimensions = 384;
create index memory_vectors_768 on dialectic_memory_pieces
  using hnsw ((embedding::vector(768)) vector_cosine_ops) where is_graphed and dimensions = 768;
create index memory_vectors_1024 on dialectic_memory_pieces
  using hnsw ((embedding::vector(1024)) vector_cosine_ops) where is_graphed and dimensions = 1024;
create index memory_vectors_1536 on dialectic_memory_pieces
  using hnsw ((embedding::vector(1536)) vector_cosine_ops) where is_graphed and dimensions = 1536;

-- The postings of BM25: for each word of a source the pieces that contain it, how often, and how
-- long those pieces are. A search reads the words of many sources, so the primary key includes all
-- it reads: in the table each row would be on a page of its own. An index entry has little room, so
-- a word that is in many pieces of a source takes several rows (part).
create table dialectic_memory_words (
  tenant_id uuid not null,
  project_id uuid not null,
  embedding_model text not null,
  lexeme text not null,
  source_id uuid not null,
  part integer not null check (part >= 0),
  memory_ids bigint[] not null,
  counts integer[] not null,
  word_counts integer[] not null,
  primary key (tenant_id, project_id, embedding_model, lexeme, source_id, part)
    include (memory_ids, counts, word_counts),
  foreign key (tenant_id, source_id, embedding_model)
    references dialectic_memory_sources (tenant_id, source_id, embedding_model) on delete cascade,
  constraint each_piece_has_its_counts
    check (cardinality(memory_ids) = cardinality(counts) and cardinality(counts) = cardinality(word_counts))
);
create index memory_words_of_a_source
  on dialectic_memory_words (tenant_id, source_id, embedding_model);

-- The pieces as a reader asks for them: of which session and contribution, with their vectors. It
-- runs with the reader's rights, so row-level security applies.
create view dialectic_memory with (security_invoker = true) as
select p.tenant_id, p.id, p.project_id, s.session_id, c.id as source_contribution_id,
  case when c.id is null then p.source_id end as source_resource_id, p.content,
  jsonb_build_object('position', p.position, 'start', p.start_offset, 'end', p.end_offset,
    'heading_path', to_jsonb(p.heading_path), 'tokens', p.token_count,
    'embedding_model', p.embedding_model, 'content_hash', p.content_hash) as metadata,
  p.embedding, p.created_at
from dialectic_memory_pieces p
join dialectic_memory_sources s on s.tenant_id = p.tenant_id and s.source_id = p.source_id
  and s.embedding_model = p.embedding_model
left join dialectic_contributions c on c.tenant_id = p.tenant_id and c.id = p.source_id;

-- The vectors of one text that was too long for a prompt, as one embedder made them: made and paid
-- for once.
create table dialectic_text_vectors (
  tenant_id uuid not null,
  -- Derived from the text and the embedder.
  id uuid not null,
  -- The session it was made for. Other sessions of the tenant may use it; it is deleted with its
  -- own.
  session_id uuid not null,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  embedder text not null,
  -- The attempt that makes it. While that attempt lives, no other pays for the same.
  job_id uuid not null,
  attempt integer not null,
  -- Where its pieces begin and end, and the headings above them.
  pieces jsonb,
  -- All numbers of all vectors, four bytes each, little-endian.
  vectors bytea,
  tokens bigint check (tokens >= 0),
  cost_credits bigint not null default 0 check (cost_credits >= 0),
  -- The hold it was paid from; null if it cost nothing.
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

-- One text, compressed for one purpose to at most budget_tokens of one tokenizer.
create table dialectic_compressions (
  tenant_id uuid not null,
  -- Derived from all that it depends on.
  id uuid not null,
  session_id uuid not null,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  purpose_hash text not null check (purpose_hash ~ '^[0-9a-f]{64}$'),
  -- With its version, and the model it asks.
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

-- What was found about the points of a document: where they come from, and what became of others.
-- Computed from texts alone; it can be deleted at any time.
create table dialectic_provenance (
  tenant_id uuid not null,
  contribution_id uuid not null,
  -- What was asked for: the sources of its points, direct or first, the coverage judged by it, or
  -- the claims and dissents of its iteration; or that its files were written.
  kind text not null check (kind in ('direct', 'origin', 'coverage', 'claims', 'dissents', 'files')),
  method text not null check (length(method) between 1 and 100),
  -- A hash of all that was compared: other versions make another row.
  inputs_sha256 text not null check (inputs_sha256 ~ '^[0-9a-f]{64}$'),
  report jsonb not null,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, contribution_id, kind, method, inputs_sha256),
  foreign key (tenant_id, contribution_id)
    references dialectic_contributions (tenant_id, id) on delete cascade
);
