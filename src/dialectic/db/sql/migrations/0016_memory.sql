-- Pieces of documents, as vectors and words. The table there was for it was never used: it is made anew.

drop table dialectic_memory;

-- What is indexed: one row for each text and each embedder that has read it. Everything below is written
-- in the commit that writes this row, and goes when it goes.
create table dialectic_memory_sources (
  tenant_id uuid not null,
  source_id uuid not null,
  embedding_model text not null check (length(embedding_model) between 1 and 256),
  project_id uuid not null,
  session_id uuid,
  -- Of the text as it was cut, and of the way it was cut: another one is indexed anew.
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

-- A vector is only ever compared with others of its own model.
create table dialectic_memory (
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
  -- Of what the embedder read: an equal piece elsewhere has the same vector and is not embedded again.
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  dimensions integer not null,
  embedding vector not null,
  -- Whether it stands in the index of vectors below. Entering costs milliseconds, so the first thousands
  -- of a project never do: they are compared one by one.
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
-- Beside the row's other columns, not behind them: every exact search reads it.
alter table dialectic_memory alter column embedding set storage main;
create index memory_of_a_project on dialectic_memory (tenant_id, project_id, embedding_model, is_graphed);
create index memory_by_content on dialectic_memory (tenant_id, embedding_model, content_hash);

-- An index can hold vectors of one size only, and of at most 2,000 numbers. Others are searched exactly.
create index memory_vectors_256 on dialectic_memory
  using hnsw ((embedding::vector(256)) vector_cosine_ops) where is_graphed and dimensions = 256;
create index memory_vectors_384 on dialectic_memory
  using hnsw ((embedding::vector(384)) vector_cosine_ops) where is_graphed and dimensions = 384;
create index memory_vectors_768 on dialectic_memory
  using hnsw ((embedding::vector(768)) vector_cosine_ops) where is_graphed and dimensions = 768;
create index memory_vectors_1024 on dialectic_memory
  using hnsw ((embedding::vector(1024)) vector_cosine_ops) where is_graphed and dimensions = 1024;
create index memory_vectors_1536 on dialectic_memory
  using hnsw ((embedding::vector(1536)) vector_cosine_ops) where is_graphed and dimensions = 1536;

-- Which words stand where: for each word of a source the pieces it stands in, how often, and how long
-- those pieces are. What BM25 needs, without reading a piece.
create table dialectic_memory_words (
  tenant_id uuid not null,
  project_id uuid not null,
  embedding_model text not null,
  lexeme text not null,
  source_id uuid not null,
  memory_ids bigint[] not null,
  counts integer[] not null,
  word_counts integer[] not null,
  primary key (tenant_id, project_id, embedding_model, lexeme, source_id),
  foreign key (tenant_id, source_id, embedding_model)
    references dialectic_memory_sources (tenant_id, source_id, embedding_model) on delete cascade,
  constraint each_piece_has_its_counts
    check (cardinality(memory_ids) = cardinality(counts) and cardinality(counts) = cardinality(word_counts))
);
create index memory_words_of_a_source
  on dialectic_memory_words (tenant_id, source_id, embedding_model);
