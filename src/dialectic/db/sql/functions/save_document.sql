-- Save a job's document with all its files, and announce it to followers of the session with an
-- excerpt in place of its text. The first statement of the transaction that ends the attempt: it
-- locks the job, and returns false, with nothing written, if the attempt has lost it. Columns are
-- named, so that a worker can still save its result after a newer version has added columns.
create or replace function dialectic.save_document(
  p_job_id uuid, p_attempt integer, p_tenant_id uuid, p_project_id uuid, p_user_id uuid,
  p_record jsonb, p_excerpt text, p_paths text[], p_mime_types text[], p_hashes text[],
  p_contents bytea[], p_resources jsonb
) returns boolean
language plpgsql
as $$
declare
  v_new dialectic.dialectic_contributions;
begin
  perform from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_tenant_id and j.id = p_job_id and j.attempt_count = p_attempt
    and j.status::text = 'processing'
  for no key update;
  if not found then
    return false;
  end if;
  insert into dialectic.dialectic_files
    (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
  select p_tenant_id, f.path, p_project_id, f.mime_type, length(f.content), f.sha256, f.content
  from unnest(p_paths, p_mime_types, p_hashes, p_contents) as f (path, mime_type, sha256, content);
  insert into dialectic.dialectic_contributions
    (tenant_id, id, session_id, job_id, model_id, model_name, model_index, stage, iteration_number,
     contribution_type, rank, origin, source_group, target_contribution_id, source_contribution_ids,
     read_version_ids, words_hash, original_model_contribution_id, edit_version,
     is_incomplete, is_intermediate, flags, title, excerpt, words, content, storage_path,
     raw_response_storage_path, size_bytes, prompt_template_name, tokens_used_input,
     tokens_used_output, usage_source, finish_reason, raw_finish_reason, provider_request_id,
     processing_time_ms, manifest)
  select tenant_id, id, session_id, job_id, model_id, model_name, model_index, stage,
    iteration_number, contribution_type, rank, origin, source_group, target_contribution_id,
    source_contribution_ids, read_version_ids, words_hash, original_model_contribution_id,
    edit_version, is_incomplete, is_intermediate, flags, title, excerpt, words, content,
    storage_path, raw_response_storage_path, size_bytes, prompt_template_name, tokens_used_input,
    tokens_used_output, usage_source, finish_reason, raw_finish_reason, provider_request_id,
    processing_time_ms, manifest
  from jsonb_populate_record(null::dialectic.dialectic_contributions, p_record)
  returning * into v_new;
  v_new.content := '';
  perform dialectic.announce(v_new.session_id, 'dialectic_contribution_received',
    jsonb_build_object('sessionId', v_new.session_id, 'job_id', v_new.job_id,
      'is_continuing', false,
      'contribution', to_jsonb(v_new) - '{tenant_id, content, title, words, changed_in}'::text[]
        || jsonb_build_object('excerpt', p_excerpt)));
  if p_resources <> '[]' then
    perform dialectic.put_resources(p_tenant_id, p_project_id, p_user_id, p_resources);
  end if;
  return true;
end
$$;

-- Put texts of a project with their files. Both may be replaced: the row holds the latest bytes
-- until they are stored. A file in a work folder may have been changed by a person, so its hash does
-- not tell what we wrote; the text of its resource does.
create or replace function dialectic.put_resources(
  p_tenant_id uuid, p_project_id uuid, p_user_id uuid, p_resources jsonb
) returns void
language plpgsql
-- A plan that was made for an empty table would read all of it for as long as the connection lasts.
set enable_seqscan = off
as $$
begin
  with given as (
    select n.*, convert_to(n.text, 'UTF8') as bytes
    from jsonb_to_recordset(p_resources) as n (
      id uuid, resource_type text, session_id uuid, iteration_number integer, stage_slug text,
      text text, path text, mime_type text, notes text[], source_contribution_id uuid,
      document_key text)
  ),
  files as (
    insert into dialectic.dialectic_files as f
      (tenant_id, path, project_id, mime_type, size_bytes, sha256, content)
    select p_tenant_id, n.path, p_project_id, n.mime_type, length(n.bytes),
      encode(sha256(n.bytes), 'hex'), n.bytes
    from given n
    -- Not `not exists`: a join would read the texts of all resources of the tenant.
    where (
      select r.content = n.text and r.resource_type = n.resource_type
      from dialectic.dialectic_project_resources r
      where r.tenant_id = p_tenant_id and r.storage_path = n.path) is not true
    on conflict (tenant_id, path) do update
    set size_bytes = excluded.size_bytes, sha256 = excluded.sha256, content = excluded.content,
        written_at = null, is_withdrawn = false,
        earlier_sha256 = f.earlier_sha256 || array(
          select encode(sha256(convert_to(r.content, 'UTF8')), 'hex')
          from dialectic.dialectic_project_resources r
          where r.tenant_id = f.tenant_id and r.storage_path = f.path and f.written_at is not null
            and split_part(f.path, '/', 2) ~ '^(Pending|Current|Complete|PLAN(-v[0-9]+)?[.]md)$')
    where f.sha256 <> excluded.sha256 or f.is_withdrawn
  )
  insert into dialectic.dialectic_project_resources as r
    (tenant_id, id, project_id, user_id, resource_type, session_id, iteration_number, stage_slug,
     content, storage_path, mime_type, size_bytes, notes, source_contribution_id, document_key)
  select p_tenant_id, n.id, p_project_id, p_user_id, n.resource_type, n.session_id,
    n.iteration_number, n.stage_slug, n.text, n.path, n.mime_type, length(n.bytes), n.notes,
    n.source_contribution_id, n.document_key
  from given n
  -- Matched by path: an imported resource may have another id.
  on conflict (tenant_id, storage_path) do update
  set content = excluded.content, size_bytes = excluded.size_bytes, notes = excluded.notes,
      source_contribution_id = excluded.source_contribution_id,
      resource_type = excluded.resource_type, session_id = excluded.session_id,
      iteration_number = excluded.iteration_number
  where (r.content, r.resource_type, r.source_contribution_id)
    is distinct from (excluded.content, excluded.resource_type, excluded.source_contribution_id);
end
$$;
