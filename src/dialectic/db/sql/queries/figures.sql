-- Statements of db/tables/figures.py: statistics and counters.

-- name: load_figures
select * from dialectic.load_figures()

-- name: add_tallies
select dialectic.add_tallies($1, $2)

-- name: ping
select 1
