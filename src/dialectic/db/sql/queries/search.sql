-- Statements of db/tables/search.py: search a tenant by words. $1 is a pattern for each word, $2 the
-- number of rows. Only the newest rows are looked at, and only the beginnings of long texts, so that
-- the time is bounded.

-- name: search_projects
select p.id, p.project_name as title, p.text, p.created_at, p.project_name ilike all ($1) as is_title
from (
  select id, project_name, left(initial_user_prompt, 20000) as text, created_at
  from dialectic_projects
  where tenant_id = (select current_tenant())
  order by created_at desc
  limit 2000
) p
where concat_ws(' ', p.project_name, p.text) ilike all ($1)
order by is_title desc, p.created_at desc, p.id
limit $2

-- name: search_sessions
select s.id, s.title, s.text, s.created_at, s.title ilike all ($1) as is_title
from (
  select s.id, p.project_name as title, left(s.session_description, 20000) as text, s.created_at
  from dialectic_sessions s
  join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
  where s.tenant_id = (select current_tenant())
  order by s.created_at desc
  limit 2000
) s
where concat_ws(' ', s.title, s.text) ilike all ($1)
order by is_title desc, s.created_at desc, s.id
limit $2

-- name: search_documents
-- The newest versions of what models and users wrote, without intermediate documents.
select c.id, c.title, c.text, c.created_at, c.title ilike all ($1) as is_title
from (
  select c.id, c.created_at, left(c.content, 100000) as text,
    format('%s by %s, %s', initcap(replace(c.contribution_type, '_', ' ')), c.model_name, p.project_name) as title
  from dialectic_contributions c
  join dialectic_sessions s on s.tenant_id = c.tenant_id and s.id = c.session_id
  join dialectic_projects p on p.tenant_id = s.tenant_id and p.id = s.project_id
  where c.tenant_id = (select current_tenant()) and c.is_latest_edit and not c.is_intermediate
  order by c.created_at desc
  limit 1000
) c
where concat_ws(' ', c.title, c.text) ilike all ($1)
order by is_title desc, c.created_at desc, c.id
limit $2

-- name: search_chats
select c.id, c.title, c.text, c.created_at, c.title ilike all ($1) as is_title
from (
  select c.id, c.title, c.created_at, (
    select left(string_agg(m.content, e'\n' order by m.position), 50000) from chat_messages m
    where m.tenant_id = c.tenant_id and m.chat_id = c.id and m.is_active_in_thread
  ) as text
  from chats c
  where c.tenant_id = (select current_tenant())
  order by c.created_at desc
  limit 500
) c
where concat_ws(' ', c.title, c.text) ilike all ($1)
order by is_title desc, c.created_at desc, c.id
limit $2

-- name: search_passages
-- By the words of the search index ($1: a text, $3: an embedder), of the 200 newest projects. A
-- passage has all words of the text; the one with the larger share of them comes first.
with lexemes as (
  select array_agg(lexeme) as words
  from unnest(tsvector_to_array(to_tsvector('pg_catalog.english', $1))) lexeme
), places as (
  select place.memory_id, count(*) as words, sum(place.n::float8 / greatest(place.length, 1)) as share
  from (
    select id from dialectic_projects
    where tenant_id = (select current_tenant())
    order by created_at desc limit 200
  ) p
  join dialectic_memory_words w
    on w.tenant_id = (select current_tenant()) and w.project_id = p.id and w.embedding_model = $3
    and w.lexeme = any ((select words from lexemes)::text[])
  cross join lateral unnest(w.memory_ids, w.counts, w.word_counts) as place (memory_id, n, length)
  group by place.memory_id
  having count(*) = (select cardinality(words) from lexemes)
  order by share desc, place.memory_id
  limit 5 * $2
)
select c.id, m.content as text, m.start_offset as start, m.heading_path, m.created_at,
  format('%s by %s, %s', initcap(replace(c.contribution_type, '_', ' ')), c.model_name, p.project_name) as title,
  case when length(c.content) <= 100000 then c.content end as content, places.share
from places
join dialectic_memory_pieces m on m.tenant_id = (select current_tenant()) and m.id = places.memory_id
join dialectic_contributions c
  on c.tenant_id = m.tenant_id and c.id = m.source_id and c.is_latest_edit and not c.is_intermediate
join dialectic_projects p on p.tenant_id = m.tenant_id and p.id = m.project_id
order by places.share desc, m.id
limit $2
