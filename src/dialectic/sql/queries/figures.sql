-- Statements of store/figures.py: how all work stands.

-- name: load_figures
select * from dialectic.load_figures()

-- name: ping
select 1
