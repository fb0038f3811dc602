-- What happened to each job, noted in the transaction in which it happened. Heartbeats are left out.
create schema chaos;
create table chaos.moves (
  n bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  job_id uuid not null,
  from_status text,
  to_status text not null,
  attempt integer not null,
  dispatch integer not null,
  step integer not null,
  is_claim boolean not null,
  worker text
);
create index moves_of_a_job on chaos.moves (job_id, n);

create function chaos.note_move() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if tg_op = 'INSERT' then
    insert into chaos.moves (job_id, to_status, attempt, dispatch, step, is_claim, worker)
    values (new.id, new.status, new.attempt_count, new.dispatch_count, new.current_step, false,
      new.worker);
  elsif (old.status, old.attempt_count, old.dispatch_count, old.current_step)
      is distinct from (new.status, new.attempt_count, new.dispatch_count, new.current_step) then
    insert into chaos.moves (job_id, from_status, to_status, attempt, dispatch, step, is_claim,
      worker)
    values (new.id, old.status, new.status, new.attempt_count, new.dispatch_count,
      new.current_step, new.attempt_count > old.attempt_count, new.worker);
  end if;
  return null;
end
$$;
create trigger chaos_notes_moves
  after insert or update on dialectic.dialectic_generation_jobs
  for each row execute function chaos.note_move();
