-- Words are written source by source and read word by word: each row that a search read lay on a page of
-- its own. Now the index holds all that a search reads, side by side. An entry of an index has little
-- room, so a word that stands in many pieces of a source takes several rows.
alter table dialectic_memory_words add column part integer not null default 0 check (part >= 0);
alter table dialectic_memory_words drop constraint dialectic_memory_words_pkey;

with taken as (
  delete from dialectic_memory_words w
  where cardinality(w.memory_ids) > case when octet_length(w.lexeme) > 256 then 1 else 64 end
  returning w.*
)
insert into dialectic_memory_words
  (tenant_id, project_id, embedding_model, lexeme, source_id, part, memory_ids, counts, word_counts)
select t.tenant_id, t.project_id, t.embedding_model, t.lexeme, t.source_id, t.part,
  array_agg(t.id order by t.place), array_agg(t.n order by t.place), array_agg(t.words order by t.place)
from (
  select w.tenant_id, w.project_id, w.embedding_model, w.lexeme, w.source_id, each.id, each.n, each.words,
    each.place, (each.place - 1) / case when octet_length(w.lexeme) > 256 then 1 else 64 end as part
  from taken w
  cross join lateral unnest(w.memory_ids, w.counts, w.word_counts) with ordinality
    as each (id, n, words, place)
) t
group by t.tenant_id, t.project_id, t.embedding_model, t.lexeme, t.source_id, t.part;

alter table dialectic_memory_words alter column part drop default;
alter table dialectic_memory_words
  add primary key (tenant_id, project_id, embedding_model, lexeme, source_id, part)
  include (memory_ids, counts, word_counts);
