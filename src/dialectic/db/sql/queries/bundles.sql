-- A whole project, read in one snapshot and inserted in one commit. Rows of the current tenant
-- only.

-- name: find_projects
-- By folder, by name, by a prefix of its id or of a session's, or by a prefix of its folder or
-- name.
with wanted as (
  select lower($1) as beginning, nullif(replace(lower($1), '-', ''), '') as digits
)
select p.id, p.slug, found.rank
from dialectic_projects p
cross join wanted w
cross join lateral (
  select case
    when p.slug = $1 then 1
    when p.project_name = $1 then 2
    when starts_with(replace(p.id::text, '-', ''), w.digits) or exists (
      select from dialectic_sessions s
      where s.tenant_id = p.tenant_id and s.project_id = p.id
        and starts_with(replace(s.id::text, '-', ''), w.digits)) then 3
    when starts_with(p.slug, w.beginning) or starts_with(lower(p.project_name), w.beginning) then 4
  end as rank
) found
where found.rank is not null
order by found.rank, p.created_at desc
limit 10

-- name: read_project
-- One statement, hence one snapshot. Texts and bytes are read one by one afterwards and must match
-- the hashes that are read here.
with project as (
  select * from dialectic_projects where id = $1
), sessions as (
  select s.* from dialectic_sessions s join project p on p.id = s.project_id
), processes as (
  select t.* from dialectic_process_templates t
  where t.id in (select process_template_id from sessions)
), contributions as (
  select c.* from dialectic_contributions c join sessions s on s.id = c.session_id
)
select
  (select jsonb_agg(to_jsonb(p)) from project p) as dialectic_projects,
  (select jsonb_agg(to_jsonb(d)) from dialectic_domains d join project p on p.domain_id = d.id)
    as dialectic_domains,
  (select jsonb_agg(to_jsonb(t)) from processes t) as dialectic_process_templates,
  (select jsonb_agg(to_jsonb(g)) from dialectic_stages g
    where g.process_template_id in (select id from processes)) as dialectic_stages,
  (select jsonb_agg(to_jsonb(a)) from dialectic_stage_transitions a
    where a.process_template_id in (select id from processes)) as dialectic_stage_transitions,
  (select jsonb_agg(to_jsonb(a)) from domain_process_associations a
    join project p on p.domain_id = a.domain_id
    where a.process_template_id in (select id from processes)) as domain_process_associations,
  (select jsonb_agg(to_jsonb(o)) from domain_specific_prompt_overlays o
    join project p on p.domain_id = o.domain_id
    where o.id in (
      select used.overlay_id from dialectic_process_overlays used
      join processes t on t.id = used.process_template_id)) as domain_specific_prompt_overlays,
  (select jsonb_agg(to_jsonb(sp)) from system_prompts sp
    where sp.id in (
      select used.system_prompt_id from dialectic_process_prompts used
      join processes t on t.id = used.process_template_id)) as system_prompts,
  (select jsonb_agg(to_jsonb(m)) from ai_providers m
    where m.id in (select unnest(selected_model_ids) from sessions)
      or m.id in (select model_id from contributions)) as ai_providers,
  (select jsonb_agg(to_jsonb(s)) from sessions s) as dialectic_sessions,
  (select jsonb_agg(to_jsonb(r)) from dialectic_stage_runs r
    join sessions s on s.id = r.session_id) as dialectic_stage_runs,
  (select jsonb_agg(to_jsonb(c) - 'content' || jsonb_build_object(
      'content_sha256', encode(sha256(convert_to(c.content, 'UTF8')), 'hex')))
    from contributions c) as dialectic_contributions,
  (select jsonb_agg(to_jsonb(k) - 'content' - 'opening' || jsonb_build_object(
      'content_sha256', encode(sha256(convert_to(k.content, 'UTF8')), 'hex')))
    from dialectic_chunks k join sessions s on s.id = k.session_id) as dialectic_chunks,
  (select jsonb_agg(to_jsonb(f)) from dialectic_feedback f
    join sessions s on s.id = f.session_id) as dialectic_feedback,
  (select jsonb_agg(to_jsonb(r) - 'content' || jsonb_build_object(
      'content_sha256', encode(sha256(convert_to(r.content, 'UTF8')), 'hex')))
    from dialectic_project_resources r join project p on p.id = r.project_id)
    as dialectic_project_resources,
  (select jsonb_agg(jsonb_build_object('path', f.path, 'mime_type', f.mime_type,
      'size_bytes', f.size_bytes, 'sha256', f.sha256))
    from dialectic_files f join project p on p.id = f.project_id) as dialectic_files

-- name: read_file
select sha256, content from dialectic_files where path = $1

-- name: read_text
select content from dialectic_contributions where id = $1
union all
select content from dialectic_chunks where id = $1
union all
select content from dialectic_project_resources where id = $1

-- name: read_texts
select id, content from dialectic_contributions where id = any ($1)

-- name: allow_long_transaction
-- Importing a project takes longer than other transactions; PostgreSQL 17 and later would end it.
select set_config('transaction_timeout', '0', true)
where current_setting('server_version_num')::integer >= 170000

-- name: ids_are_taken
select exists (select from dialectic_projects where id = any ($1))
  or exists (select from dialectic_sessions where id = any ($1))
  or exists (select from dialectic_contributions where id = any ($1))
  or exists (select from dialectic_chunks where id = any ($1))
  or exists (select from dialectic_feedback where id = any ($1))
  or exists (select from dialectic_project_resources where id = any ($1))

-- Rows are inserted whole from JSON, with null in the columns that the bundle omits. A test
-- compares the columns of both.

-- name: insert_domains
insert into dialectic_domains select * from jsonb_populate_recordset(null::dialectic_domains, $1)
on conflict do nothing

-- name: insert_models
-- Keep this installation's facts about a model: they are newer than the bundle's.
insert into ai_providers (tenant_id, id, api_identifier, provider, config)
select tenant_id, id, api_identifier, provider, config
from jsonb_populate_recordset(null::ai_providers, $1)
on conflict do nothing

-- name: insert_projects
insert into dialectic_projects select * from jsonb_populate_recordset(null::dialectic_projects, $1)

-- name: insert_sessions
insert into dialectic_sessions select * from jsonb_populate_recordset(null::dialectic_sessions, $1)

-- name: insert_stage_runs
insert into dialectic_stage_runs
select * from jsonb_populate_recordset(null::dialectic_stage_runs, $1)

-- name: insert_contributions
-- In one statement, because contributions refer to each other; their texts follow one by one.
insert into dialectic_contributions
select * from jsonb_populate_recordset(null::dialectic_contributions, $1)

-- name: insert_chunks
insert into dialectic_chunks select * from jsonb_populate_recordset(null::dialectic_chunks, $1)

-- name: insert_feedback
insert into dialectic_feedback select * from jsonb_populate_recordset(null::dialectic_feedback, $1)

-- name: insert_resources
insert into dialectic_project_resources
select * from jsonb_populate_recordset(null::dialectic_project_resources, $1)

-- name: write_contribution_text
-- With the card that is made of it, if the bundle has none.
update dialectic_contributions
set content = $2, title = case when words = 0 then $3 else title end,
    excerpt = case when words = 0 then $4 else excerpt end,
    words = case when words = 0 then $5 else words end
where id = $1

-- name: write_resource_text
update dialectic_project_resources set content = $2 where id = $1
