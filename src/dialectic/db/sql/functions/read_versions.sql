-- The sources of a contribution with the version that was read of each, in the order of reading. A
-- version is null if it is unknown.
create or replace function dialectic.list_read_versions(
  p_tenant_id uuid, p_source_ids uuid[], p_version_ids uuid[]
) returns jsonb
language sql stable
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'contribution_id', s.id, 'version_id', s.version_id, 'version', v.edit_version,
    'is_by_user', v.user_id is not null) order by s.nth), '[]')
  from unnest(p_source_ids, p_version_ids) with ordinality as s (id, version_id, nth)
  left join dialectic.dialectic_contributions v
    on v.tenant_id = p_tenant_id and v.id = s.version_id
$$;
