-- What was compared, and what was found. Rows of the current tenant only.

-- name: find_contribution
select id, session_id, iteration_number
from dialectic_contributions
where id = $1

-- name: list_versions
-- All versions of an iteration's documents, without their texts.
select c.id, coalesce(c.original_model_contribution_id, c.id) as first_id, c.edit_version as version,
  c.is_latest_edit, c.user_id is not null as is_by_user, c.job_id, c.model_name, c.model_index,
  c.stage, c.contribution_type, c.rank, c.origin, c.source_group, c.source_contribution_ids,
  c.read_version_ids, c.is_intermediate, c.storage_path
from dialectic_contributions c
where c.session_id = $1 and c.iteration_number = $2
order by c.id

-- name: read_contents
select id, content
from dialectic_contributions
where id = any ($1)

-- name: find_report
select report::text
from dialectic_provenance
where contribution_id = $1 and kind = $2 and method = $3 and inputs_sha256 = $4

-- name: forget_reports
delete from dialectic_provenance
where contribution_id = $1 and kind = $2 and (method, inputs_sha256) <> ($3, $4)

-- name: save_report
insert into dialectic_provenance
  (tenant_id, contribution_id, kind, method, inputs_sha256, report)
values (current_tenant(), $1, $2, $3, $4, $5::text::jsonb)
on conflict do nothing
