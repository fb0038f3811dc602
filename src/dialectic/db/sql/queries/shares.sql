-- Statements of db/tables/shares.py: links to reports.

-- name: find_share
select tenant_id, share_id, session_id, pass_salt, pass_hash, has_drafts, has_names
from dialectic.find_share($1)

-- name: delete_expired
delete from dialectic_shares where session_id = $1 and expires_at <= dialectic.now()

-- name: count_shares
select count(*) from dialectic_shares where session_id = $1

-- name: insert_share
insert into dialectic_shares
  (tenant_id, id, session_id, user_id, secret_sha256, pass_salt, pass_hash, has_drafts, has_names,
   expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, dialectic.now() + $10)
-- A retry has drawn another secret.
on conflict (tenant_id, id) do update set secret_sha256 = excluded.secret_sha256,
  pass_salt = excluded.pass_salt, pass_hash = excluded.pass_hash

-- name: list_shares
select s.id, s.session_id, s.pass_hash is not null as has_pass_phrase, s.has_drafts, s.has_names,
  s.created_at, s.expires_at, jsonb_build_object('user_id', s.user_id, 'name', u.name) as by
from dialectic_shares s
left join users u on u.id = s.user_id
where s.session_id = $1 and s.expires_at > dialectic.now() and ($2::uuid is null or s.id = $2)
order by s.created_at, s.id

-- name: delete_share
delete from dialectic_shares where id = $1 returning id
