-- Statements of db/tables/endpoints.py: the endpoints that tenants added.

-- name: list_endpoints
select name, definition, key_ciphertext, created_at from tenant_endpoints order by name

-- name: find_endpoint
select name, definition, key_ciphertext, created_at from tenant_endpoints where name = $1

-- name: insert_endpoint
-- No row if the tenant has an endpoint of this name.
insert into tenant_endpoints (tenant_id, name, definition, key_ciphertext)
values (current_tenant(), $1, $2, $3)
on conflict do nothing
returning name

-- name: replace_endpoint
update tenant_endpoints set definition = $2, key_ciphertext = $3 where name = $1 returning name

-- name: delete_endpoint
delete from tenant_endpoints where name = $1 returning name

-- name: sum_model_use
-- How fast the models of the tenant's latest documents ($2) were, and whether the user ($1) used them.
select c.model_name, bool_or(s.user_id = $1) as is_used_by_user,
  (percentile_cont(0.5) within group (order by c.processing_time_ms))::integer as p50_ms
from (
  select d.model_name, d.session_id, d.processing_time_ms
  from dialectic_contributions d
  where d.job_id is not null and d.processing_time_ms is not null
  order by d.created_at desc
  limit $2
) c
join dialectic_sessions s on s.id = c.session_id
group by c.model_name
