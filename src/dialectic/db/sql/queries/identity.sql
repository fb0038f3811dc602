-- The id of the store that holds this database's documents.

-- name: find_storage
select store_id, place from dialectic_storage

-- name: keep_storage
-- The first process sets it; all others read it with `find_storage`.
insert into dialectic_storage (store_id, place) values ($1, $2) on conflict do nothing

-- name: move_storage
update dialectic_storage set place = $1
