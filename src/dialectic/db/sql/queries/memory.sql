-- Pieces of documents for search: indexed sources, known vectors, matches for a question.

-- name: list_indexed
-- Those of the given sources whose current text this embedder has indexed.
select s.source_id
from unnest($2::uuid[], $3::text[]) as asked (source_id, source_hash)
join dialectic_memory_sources s
  on s.tenant_id = (select current_tenant()) and s.source_id = asked.source_id
  and s.embedding_model = $1 and s.source_hash = asked.source_hash and s.dimensions = $4

-- name: find_vectors
-- The vectors of equal pieces that were embedded before, in any source.
select distinct on (m.content_hash) m.content_hash, m.embedding::real[] as embedding
from dialectic_memory_pieces m
where m.tenant_id = (select current_tenant()) and m.embedding_model = $1
  and m.content_hash = any ($2::text[]) and m.dimensions = $3
order by m.content_hash, m.id

-- name: claim_source
-- Claim a source for indexing; no row if its text is indexed already. A second process waits here
-- for the first.
insert into dialectic_memory_sources
  (tenant_id, source_id, embedding_model, project_id, session_id, source_hash, dimensions, piece_count)
values (current_tenant(), $1, $2, $3, $4, $5, $6, $7)
on conflict (tenant_id, source_id, embedding_model) do update
  set source_hash = excluded.source_hash, project_id = excluded.project_id,
    session_id = excluded.session_id, dimensions = excluded.dimensions,
    piece_count = excluded.piece_count, word_count = 0, created_at = excluded.created_at
  where (dialectic_memory_sources.source_hash, dialectic_memory_sources.dimensions)
    is distinct from (excluded.source_hash, excluded.dimensions)
returning source_id

-- name: be_patient
-- A long document may exceed the usual transaction timeout. Servers before 17 have no such limit.
select set_config('transaction_timeout', $1, true)
where current_setting('transaction_timeout', true) is not null

-- name: count_others
-- The number of a project's pieces, without those of one source.
select coalesce(sum(piece_count), 0) from dialectic_memory_sources
where tenant_id = (select current_tenant()) and project_id = $1 and embedding_model = $2
  and source_id <> $3

-- name: forget_pieces
delete from dialectic_memory_pieces
where tenant_id = current_tenant() and source_id = $1 and embedding_model = $2

-- name: forget_words
delete from dialectic_memory_words
where tenant_id = current_tenant() and source_id = $1 and embedding_model = $2

-- name: insert_piece
insert into dialectic_memory_pieces
  (tenant_id, project_id, source_id, embedding_model, position, start_offset, end_offset, heading_path,
   content, token_count, content_hash, dimensions, embedding,
   is_graphed, fts, word_count)
select current_tenant(), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::real[]::vector, $13, words.fts,
  (select coalesce(sum(cardinality(each.positions)), 0) from unnest(words.fts) each)
from (select to_tsvector('pg_catalog.english', array_to_string($7::text[], ' ') || ' ' || $8) as fts) words

-- name: insert_words
-- A row has no more pieces than fit into an index entry; only one for a very long word.
insert into dialectic_memory_words
  (tenant_id, project_id, embedding_model, lexeme, source_id, part, memory_ids, counts, word_counts)
select w.tenant_id, w.project_id, w.embedding_model, w.lexeme, w.source_id, w.part,
  array_agg(w.id order by w.position), array_agg(w.n order by w.position),
  array_agg(w.word_count order by w.position)
from (
  select m.tenant_id, m.project_id, m.embedding_model, each.lexeme, m.source_id, m.id, m.position,
    cardinality(each.positions) as n, m.word_count,
    (row_number() over (partition by each.lexeme order by m.position) - 1)
      / case when octet_length(each.lexeme) > 256 then 1 else 64 end as part
  from dialectic_memory_pieces m cross join lateral unnest(m.fts) each
  where m.tenant_id = current_tenant() and m.source_id = $1 and m.embedding_model = $2
) w
group by w.tenant_id, w.project_id, w.embedding_model, w.lexeme, w.source_id, w.part

-- name: note_words
update dialectic_memory_sources s
set word_count = (
  select coalesce(sum(m.word_count), 0) from dialectic_memory_pieces m
  where m.tenant_id = s.tenant_id and m.source_id = s.source_id and m.embedding_model = s.embedding_model)
where s.tenant_id = current_tenant() and s.source_id = $1 and s.embedding_model = $2

-- name: match_chunks
select m.id, m.source_id, m.position, m.start_offset as start, m.end_offset as end, m.heading_path,
  m.content as text, m.token_count as tokens, m.embedding::real[] as vector, found.score, found.likeness, found.word_score
from match_dialectic_chunks($1, $2, $3::uuid[], $4, $5::real[]::vector, $6, $7, $8, $9) found
join dialectic_memory_pieces m
  on m.tenant_id = (select current_tenant()) and m.id = found.memory_id
order by found.score desc, m.id

-- name: list_searchable
-- The documents of a project that users search: the latest versions of what models and users wrote,
-- and the given files. Without intermediate documents and without extracts of these.
select c.id, c.session_id, c.content as text, c.storage_path as path
from dialectic_contributions c
join dialectic_sessions s on s.tenant_id = c.tenant_id and s.id = c.session_id
where s.tenant_id = (select current_tenant()) and s.project_id = $1
  and c.is_latest_edit and not c.is_intermediate
union all
select r.id, r.session_id, r.content as text, r.storage_path as path
from dialectic_project_resources r
where r.tenant_id = (select current_tenant()) and r.project_id = $1
  and r.resource_type not in ('initial_user_prompt', 'seed_prompt', 'document', 'work_item',
    'superseded_work_item', 'work_folder_readme', 'plan_page')
order by path, id
