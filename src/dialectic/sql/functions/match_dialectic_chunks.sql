-- Pieces that answer a question, best first: by vector and by words, fused by rank. Runs with the
-- caller's own rights, so row-level security holds; the scope is a project, and in it, where given, a
-- session (with what belongs to the whole project) and certain sources.
--
-- Few pieces are compared one by one, which is exact. From p_index_from pieces on, those that stand in
-- the index of vectors are asked of it, in strict order, until enough of them lie in the scope; the
-- others, and all of them if the index comes back with too few, are compared one by one.
drop function if exists dialectic.match_dialectic_chunks(
  uuid, uuid, uuid[], text, vector, text, real, integer, integer);
create function dialectic.match_dialectic_chunks(
  p_project_id uuid, p_session_id uuid, p_source_ids uuid[], p_embedding_model text,
  p_vector vector, p_words text, p_word_weight real, p_limit integer, p_index_from integer
) returns table (memory_id bigint, score double precision, likeness double precision, word_score double precision)
language plpgsql
-- To plan it for each question anew takes longer than a better plan would save.
set search_path = dialectic, public, extensions set plan_cache_mode = force_generic_plan
as $$
declare
  -- As usual for BM25.
  k1 constant double precision := 1.2;
  b constant double precision := 0.75;
  -- For rank fusion 60 is usual; 20 trusts the first places more, and found more on two collections.
  rrf constant double precision := 20;
  -- How far down each half is read before the two are fused.
  v_depth constant integer := greatest(60, 2 * p_limit);
  -- So many places of words are looked at, the rarest words first: in a large scope the most common
  -- words of a question take most of the time and decide least.
  c_places_max constant integer := 8000;
  c_places_max_large constant integer := 4000;
  c_large constant integer := 10000;
  v_places_max integer;
  -- No more may be asked of the index at once; it goes on until it has given enough.
  c_breadth_max constant integer := 1000;
  v_tenant uuid := dialectic.current_tenant();
  v_size integer := vector_dims(p_vector);
  v_sources uuid[];
  v_is_whole boolean := p_session_id is null and p_source_ids is null;
  v_pieces bigint;
  v_source_count double precision;
  v_mean_words double precision;
  v_lexemes text[];
  v_near text;
  v_ids bigint[] := '{}';
  v_likeness double precision[] := '{}';
  v_rest text;
  v_more_ids bigint[];
  v_more_likeness double precision[];
begin
  select array_agg(s.source_id), coalesce(sum(s.piece_count), 0),
    greatest(sum(s.word_count)::double precision / nullif(sum(s.piece_count), 0), 1)
  into v_sources, v_pieces, v_mean_words
  from dialectic.dialectic_memory_sources s
  where s.tenant_id = v_tenant and s.project_id = p_project_id
    and s.embedding_model = p_embedding_model and s.dimensions = v_size
    and (p_session_id is null or s.session_id is null or s.session_id = p_session_id)
    and (p_source_ids is null or s.source_id = any (p_source_ids));
  if v_pieces = 0 then
    return;
  end if;
  v_source_count := cardinality(v_sources);
  v_places_max := case when v_pieces < c_large then c_places_max else c_places_max_large end;

  -- The size is part of the expression that the index was made for, so it is spelled out.
  v_near := format(
    'select coalesce(array_agg(near.id), %1$L), coalesce(array_agg(near.likeness), %1$L) from ('
    ' select m.id, 1 - (m.embedding::vector(%2$s) <=> $1::vector(%2$s)) as likeness'
    ' from dialectic.dialectic_memory m'
    ' where m.tenant_id = $2 and m.project_id = $3 and m.embedding_model = $4 and m.dimensions = %2$s'
    ' and ($7 or m.source_id = any ($5)) and (%3$s)'
    ' order by m.embedding::vector(%2$s) <=> $1::vector(%2$s) limit $6) near', '{}', v_size, '%s');
  if v_pieces >= p_index_from and to_regclass('dialectic.memory_vectors_' || v_size) is not null
    and current_setting('hnsw.iterative_scan', true) is not null then
    perform set_config('hnsw.iterative_scan', 'strict_order', true),
      set_config('hnsw.ef_search', least(v_depth, c_breadth_max)::text, true),
      set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
    execute format(v_near, 'm.is_graphed') into v_ids, v_likeness
      using p_vector, v_tenant, p_project_id, p_embedding_model, v_sources, v_depth,
      v_is_whole;
    perform set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true);
  end if;
  v_rest := case when cardinality(v_ids) < v_depth then 'true' else 'not m.is_graphed' end;
  perform set_config('enable_indexscan', 'off', true);
  execute format(v_near, v_rest) into v_more_ids, v_more_likeness
    using p_vector, v_tenant, p_project_id, p_embedding_model, v_sources, v_depth,
      v_is_whole;
  perform set_config('enable_indexscan', 'on', true);
  if v_rest = 'true' then
    v_ids := v_more_ids;
    v_likeness := v_more_likeness;
  else
    v_ids := v_ids || v_more_ids;
    v_likeness := v_likeness || v_more_likeness;
  end if;

  -- How many sources hold a word, the index tells alone; in how many pieces it stands follows from that,
  -- about, as if it stood anywhere by chance.
  select array_agg(r.lexeme) into v_lexemes
  from (
    select e.lexeme, e.pieces, sum(e.pieces) over (order by e.pieces, e.lexeme) as places
    from (
      select w.lexeme, v_pieces * (1 - power(
        greatest(1 - count(*) / v_source_count, 0.5 / v_source_count), v_source_count / v_pieces)) as pieces
      from dialectic.dialectic_memory_words w
      where w.tenant_id = v_tenant and w.project_id = p_project_id
        and w.embedding_model = p_embedding_model
        and w.lexeme = any (tsvector_to_array(to_tsvector('pg_catalog.english', p_words)))
        and (v_is_whole or w.source_id = any (v_sources))
      group by w.lexeme
    ) e
  ) r
  where r.places <= v_places_max or r.places = r.pieces;

  return query
  with found as materialized (
    select w.lexeme, w.memory_ids, w.counts, w.word_counts
    from dialectic.dialectic_memory_words w
    where w.tenant_id = v_tenant and w.project_id = p_project_id
      and w.embedding_model = p_embedding_model and w.lexeme = any (v_lexemes)
      and (v_is_whole or w.source_id = any (v_sources))
  ), counted as (
    select f.lexeme, sum(cardinality(f.memory_ids)) as pieces from found f group by f.lexeme
  ), rarity as materialized (
    select c.lexeme, ln(1 + (v_pieces - c.pieces + 0.5) / (c.pieces + 0.5))::double precision as idf
    from counted c
  ), placed as (
    select unnest(f.memory_ids) as id, unnest(f.counts) as n, unnest(f.word_counts) as words, r.idf
    from rarity r join found f on f.lexeme = r.lexeme
  ), worded as (
    select p.id, sum(p.idf * p.n * (k1 + 1) / (p.n + k1 * (1 - b + b * p.words / v_mean_words))) as bm25
    from placed p
    group by p.id
    order by bm25 desc, p.id
    limit v_depth
  ), by_words as (
    select w.id, w.bm25, row_number() over (order by w.bm25 desc, w.id) as place from worded w
  ), by_vector as (
    select v.id, v.likeness, row_number() over (order by v.likeness desc, v.id) as place
    from unnest(v_ids, v_likeness) as v (id, likeness)
    order by place limit v_depth
  )
  select coalesce(v.id, w.id),
    coalesce((2 - p_word_weight) / (rrf + v.place), 0) + coalesce(p_word_weight / (rrf + w.place), 0)
      as fused,
    v.likeness, coalesce(w.bm25, 0)
  from by_vector v full join by_words w on w.id = v.id
  order by fused desc, 1
  limit p_limit;
end
$$;
