-- Statements for the rate limits of endpoints; see functions/limits.sql.

-- name: admit
select * from dialectic.admit_call($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: report
select dialectic.report_call($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) as is_calm

-- name: allow_probes
select dialectic.allow_probes($1)

-- name: list_endpoints
select * from dialectic.list_endpoints()
