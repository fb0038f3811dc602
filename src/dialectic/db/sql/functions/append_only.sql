-- Trigger: reject every change to the tables of money movements.
create or replace function dialectic.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception '% is append-only', tg_table_name
    using errcode = 'DJ002', constraint = 'append_only';
end
$$;
