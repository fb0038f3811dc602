-- Mark the two files that describe a project as due: their rows get a ticket instead of bytes. Each
-- ticket is unique, so a worker that made the files for an older ticket does not mark them as
-- current.
create or replace function dialectic.make_description_due(p_tenant_id uuid, p_project_id uuid)
returns void
language sql
as $$
  insert into dialectic.dialectic_files as f
    (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
  select p.tenant_id, p.slug || '/' || described.name, p.id, described.mime_type,
    length(ticket.content), encode(sha256(ticket.content), 'hex'), ticket.content
  from dialectic.dialectic_projects p
  cross join (values
    ('project_readme.md', 'text/markdown'), ('project_settings.json', 'application/json')
  ) as described (name, mime_type)
  cross join (select convert_to(gen_random_uuid()::text, 'UTF8')) as ticket (content)
  where p.tenant_id = p_tenant_id and p.id = p_project_id
  on conflict (tenant_id, path) do update
  set size_bytes = excluded.size_bytes, sha256 = excluded.sha256, content = excluded.content,
    written_at = null, tried_at = null, created_at = dialectic.now()
$$;
