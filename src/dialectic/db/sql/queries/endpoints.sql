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
