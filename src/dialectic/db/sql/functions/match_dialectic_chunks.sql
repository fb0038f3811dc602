-- Find the pieces that match a question, best first: by vector and by words (BM25), fused by rank.
-- Runs with the caller's rights, so row-level security applies. The scope is a project, optionally
-- one session of it (with the project's own sources) and certain sources.
--
-- Up to p_index_from pieces are compared one by one, which is exact. Beyond that, the vector index
-- is scanned in strict order until enough pieces lie in the scope. Pieces that are not indexed, and
-- all pieces if the index yields too few, are compared one by one.
--
-- The rarest words of a question select the pieces; the common words only add to the scores of the
-- selected ones. Words are read by index-only scans, clustered by word.
create or replace function dialectic.match_dialectic_chunks(
  p_project_id uuid, p_session_id uuid, p_source_ids uuid[], p_embedding_model text,
  p_vector vector, p_words text, p_word_weight real, p_limit integer, p_index_from integer
) returns table (memory_id bigint, score double precision, likeness double precision, word_score double precision)
language plpgsql rows 50
-- A custom plan per question costs more time than it saves.
set search_path = dialectic, public, extensions set plan_cache_mode = force_generic_plan
-- Starting parallel workers costs more time than they save.
set max_parallel_workers_per_gather = 0
as $$
declare
  -- The usual BM25 parameters.
  k1 constant double precision := 1.2;
  b constant double precision := 0.75;
  -- 60 is usual for rank fusion; 20 favours the first ranks and found more on two collections.
  rrf constant double precision := 20;
  -- How many results of each search are fused.
  v_depth constant integer := greatest(60, 2 * p_limit);
  -- At most this number of postings select pieces, rarest words first: in a large scope common
  -- words cost most and decide least. At most c_common_max of the other words are scored
  -- afterwards.
  c_places_max constant integer := 8000;
  c_places_max_large constant integer := 2000;
  c_large constant integer := 10000;
  c_common_max constant integer := 8;
  v_places_max integer;
  -- The maximum of hnsw.ef_search; the iterative scan continues until it has enough.
  c_breadth_max constant integer := 1000;
  v_tenant uuid := dialectic.current_tenant();
  v_size integer := vector_dims(p_vector);
  v_sources uuid[];
  -- Whether the scope is the whole project for this embedder: then sources need no filter.
  v_is_whole boolean;
  v_pieces bigint;
  v_mean_words double precision;
  v_short double precision;
  v_long double precision;
  v_rare text[];
  v_rare_idfs double precision[];
  v_common text[];
  v_common_idfs double precision[];
  v_ids bigint[];
  v_distances double precision[];
  -- The pieces to compare one by one: those that are not indexed, or all.
  v_kinds boolean[] := '{f}';
begin
  select array_agg(s.source_id) filter (where s.is_in), bool_and(s.is_in),
    coalesce(sum(s.piece_count) filter (where s.is_in), 0),
    greatest(sum(s.word_count) filter (where s.is_in)::double precision
      / nullif(sum(s.piece_count) filter (where s.is_in), 0), 1)
  into v_sources, v_is_whole, v_pieces, v_mean_words
  from (
    select s.source_id, s.piece_count, s.word_count, s.dimensions = v_size
      and (p_session_id is null or s.session_id is null or s.session_id = p_session_id)
      and (p_source_ids is null or s.source_id in (select unnest(p_source_ids))) as is_in
    from dialectic.dialectic_memory_sources s
    where s.tenant_id = v_tenant and s.project_id = p_project_id
      and s.embedding_model = p_embedding_model
  ) s;
  if v_pieces = 0 then
    return;
  end if;
  -- BM25's length normalisation: a constant part, and a part per word of the piece.
  v_short := k1 * (1 - b);
  v_long := k1 * b / v_mean_words;
  v_places_max := case when v_pieces < c_large then c_places_max else c_places_max_large end;

  perform set_config('enable_seqscan', 'off', true);
  if v_pieces >= p_index_from and to_regclass('dialectic.memory_vectors_' || v_size) is not null
    and current_setting('hnsw.iterative_scan', true) is not null then
    perform set_config('hnsw.iterative_scan', 'strict_order', true),
      set_config('hnsw.ef_search', least(v_depth, c_breadth_max)::text, true),
      set_config('enable_sort', 'off', true);
    -- The index is on an expression that contains the dimensions, so the query must too.
    execute format(
      'select array_agg(near.id), array_agg(near.distance) from ('
      ' select m.id, m.embedding::vector(%1$s) <=> $1::vector(%1$s) as distance'
      ' from dialectic.dialectic_memory_pieces m'
      ' where m.tenant_id = $2 and m.project_id = $3 and m.embedding_model = $4 and m.dimensions = %1$s'
      ' and m.is_graphed and ($5 or m.source_id = any ($6))'
      ' order by distance limit $7) near', v_size)
      into v_ids, v_distances
      using p_vector, v_tenant, p_project_id, p_embedding_model, v_is_whole, v_sources, v_depth;
    perform set_config('enable_sort', 'on', true);
  end if;
  if coalesce(cardinality(v_ids), 0) < v_depth then
    v_kinds := '{f,t}';
    v_ids := null;
    v_distances := null;
  end if;
  perform set_config('enable_indexscan', 'off', true);
  select v_ids || array_agg(near.id), v_distances || array_agg(near.distance)
  into v_ids, v_distances
  from (
    select m.id, m.embedding <=> p_vector as distance
    from dialectic.dialectic_memory_pieces m
    where m.tenant_id = v_tenant and m.project_id = p_project_id
      and m.embedding_model = p_embedding_model and m.dimensions = v_size
      and m.is_graphed = any (v_kinds) and (v_is_whole or m.source_id = any (v_sources))
    order by distance limit v_depth
  ) near;
  perform set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'on', true);

  -- Here and below the query forces one index lookup per word: a plan made while the table was
  -- empty may persist. `offset` keeps the planner from choosing another join.
  select array_agg(r.lexeme) filter (where r.is_rare), array_agg(r.idf) filter (where r.is_rare),
    (array_agg(r.lexeme order by r.idf desc, r.lexeme) filter (where not r.is_rare))[:c_common_max],
    (array_agg(r.idf order by r.idf desc, r.lexeme) filter (where not r.is_rare))[:c_common_max]
  into v_rare, v_rare_idfs, v_common, v_common_idfs
  from (
    select e.lexeme, (k1 + 1) * ln(1 + (v_pieces - e.pieces + 0.5) / (e.pieces + 0.5)) as idf,
      sum(e.pieces) over rarest <= v_places_max or row_number() over rarest = 1 as is_rare
    from (
      select asked.lexeme, held.pieces
      from unnest(tsvector_to_array(to_tsvector('pg_catalog.english', p_words))) as asked (lexeme)
      cross join lateral (
        select sum(cardinality(w.memory_ids))::double precision as pieces
        from dialectic.dialectic_memory_words w
        where w.tenant_id = v_tenant and w.project_id = p_project_id
          and w.embedding_model = p_embedding_model and w.lexeme = asked.lexeme
          and (v_is_whole or w.source_id = any (v_sources))
      ) held
      where held.pieces > 0
    ) e
    window rarest as (order by e.pieces, e.lexeme rows unbounded preceding)
  ) r;

  return query
  with placed as (
    select unnest(w.memory_ids) as id, unnest(w.counts) as n, unnest(w.word_counts) as words,
      w.source_id, r.idf
    from unnest(v_rare, v_rare_idfs) as r (lexeme, idf)
    cross join lateral (
      select w.source_id, w.memory_ids, w.counts, w.word_counts
      from dialectic.dialectic_memory_words w
      where w.tenant_id = v_tenant and w.project_id = p_project_id
        and w.embedding_model = p_embedding_model and w.lexeme = r.lexeme
        and (v_is_whole or w.source_id = any (v_sources))
      offset 0
    ) w
  ), chosen as materialized (
    select p.id, p.source_id, p.words,
      sum(p.idf * p.n / (p.n + v_short + v_long * p.words)) as bm25
    from placed p
    group by p.id, p.source_id, p.words
    order by bm25 desc, p.id
    limit v_depth
  ), added as (
    select c.id, sum(r.idf * p.n / (p.n + v_short + v_long * c.words)) as bm25
    from chosen c
    cross join unnest(v_common, v_common_idfs) as r (lexeme, idf)
    cross join lateral (
      select w.counts[array_position(w.memory_ids, c.id)] as n
      from dialectic.dialectic_memory_words w
      where w.tenant_id = v_tenant and w.project_id = p_project_id
        and w.embedding_model = p_embedding_model and w.lexeme = r.lexeme and w.source_id = c.source_id
      offset 0
    ) p
    group by c.id
  ), by_words as (
    select t.id, t.bm25, row_number() over (order by t.bm25 desc, t.id) as place
    from (
      select c.id, c.bm25 + coalesce(a.bm25, 0) as bm25 from chosen c left join added a on a.id = c.id
    ) t
  ), by_vector as (
    select v.id, 1 - v.distance as likeness, row_number() over (order by v.distance, v.id) as place
    from unnest(v_ids, v_distances) as v (id, distance)
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
