-- The store of this database's documents.

-- name: find_storage
select store_id, place from dialectic_storage

-- name: keep_storage
-- The first to come decides; all others learn from `find_storage` what was decided.
insert into dialectic_storage (store_id, place) values ($1, $2) on conflict do nothing

-- name: move_storage
update dialectic_storage set place = $1
