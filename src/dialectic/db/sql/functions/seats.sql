-- Seats: a session's models, by number. A stage goes on without a seat that failed or was dropped.

-- The number of the seat that a job works for.
create or replace function dialectic.seat_of(p_job dialectic.dialectic_generation_jobs)
returns integer
language plpgsql immutable
as $$
begin
  return (p_job.payload ->> 'model_index')::integer;
end
$$;

-- Whether a job is a seat's whole part in a stage, as it was planned.
create or replace function dialectic.is_part_of_stage(p_job dialectic.dialectic_generation_jobs)
returns boolean
language plpgsql immutable
as $$
begin
  return p_job.parent_job_id is null and p_job.job_type is distinct from 'combine'
    and p_job.payload ->> 'replaces' is null;
end
$$;

-- How many of the seats that argue in a stage must finish it: all, or fewer if the process says so
-- and the user does not want to wait for all.
create or replace function dialectic.count_needed_seats(
  p_tenant_id uuid, p_session_id uuid, p_seats integer
) returns integer
language plpgsql stable
as $$
begin
  return (
    select case when s.wait_for_all then p_seats
      else least(p_seats, (t.definition -> 'file' ->> 'seats_min')::integer) end
    from dialectic.dialectic_sessions s
    join dialectic.dialectic_process_templates t
      on t.tenant_id = s.tenant_id and t.id = s.process_template_id
    where s.tenant_id = p_tenant_id and s.id = p_session_id);
end
$$;

-- A seat's part in a stage has failed for good. If enough seats remain, the seat leaves the session
-- and the user is told; otherwise the stage will fail when its other jobs have ended. The stage is
-- locked before its seats are counted: of two that fail concurrently the second sees the first. So
-- are the later ones, which the seat leaves too, because the session is locked after them.
create or replace function dialectic.lose_seat(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_seat integer := dialectic.seat_of(p_job);
  v_position integer;
  v_seats integer;
  v_left integer;
  v_had_left boolean;
begin
  if p_job.status not in ('failed', 'retry_loop_failed') or not dialectic.is_part_of_stage(p_job) then
    return;
  end if;
  select r.position into v_position from dialectic.dialectic_stage_runs r
  where r.tenant_id = p_job.tenant_id and r.session_id = p_job.session_id
    and r.iteration_number = p_job.iteration_number and r.stage_slug = p_job.stage_slug;
  perform from dialectic.dialectic_stage_runs r
  where r.tenant_id = p_job.tenant_id and r.session_id = p_job.session_id
    and r.iteration_number = p_job.iteration_number and r.position >= v_position
  order by r.position
  for no key update;
  if not exists (
    select from dialectic.dialectic_stage_runs r
    where r.tenant_id = p_job.tenant_id and r.session_id = p_job.session_id
      and r.iteration_number = p_job.iteration_number and r.position = v_position
      and r.completed_at is null
  ) then
    return;
  end if;
  select count(*), count(*) filter (
    where dialectic.seat_of(j) <> v_seat
      and j.status not in ('failed', 'retry_loop_failed', 'cancelled'))
  into v_seats, v_left
  from dialectic.dialectic_generation_jobs j
  join dialectic.dialectic_sessions s on s.tenant_id = j.tenant_id and s.id = j.session_id
  where j.tenant_id = p_job.tenant_id and j.session_id = p_job.session_id
    and j.iteration_number = p_job.iteration_number and j.stage_slug = p_job.stage_slug
    and dialectic.is_part_of_stage(j) and not dialectic.seat_of(j) = any (s.dropped_seats);
  if v_left < dialectic.count_needed_seats(p_job.tenant_id, p_job.session_id, v_seats)
      or v_left = 0 then
    return;
  end if;
  -- Its parts in two stages may fail one after the other; that it left is told once.
  select v_seat = any (s.dropped_seats) into v_had_left from dialectic.dialectic_sessions s
  where s.tenant_id = p_job.tenant_id and s.id = p_job.session_id;
  perform dialectic.leave_seat(
    p_job.tenant_id, p_job.session_id, p_job.iteration_number, v_seat, v_position);
  if not v_had_left then
    perform dialectic.tell_lost_seat(p_job, v_left, v_seats);
  end if;
end
$$;

-- A seat leaves a session: from a stage on, the stages of this iteration that have not ended go on
-- without it, and it has no part in later ones. Earlier stages may still wait for its last job. If
-- it was the lead, the first remaining seat leads, and makes what the lead alone was to make.
create or replace function dialectic.leave_seat(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer, p_seat integer, p_position integer
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update dialectic.dialectic_sessions s
  set dropped_seats = array_append(s.dropped_seats, p_seat),
      lead_model_index = case when s.lead_model_index <> p_seat then s.lead_model_index else (
        select min(n) from generate_series(1, cardinality(s.selected_model_ids)) n
        where n <> p_seat and not n = any (s.dropped_seats)) end
  where s.tenant_id = p_tenant_id and s.id = p_session_id and not p_seat = any (s.dropped_seats);
  perform dialectic.hand_over(p_tenant_id, p_session_id, p_iteration, p_seat);
  update dialectic.dialectic_stage_runs r
  set lost_seats = array_append(r.lost_seats, p_seat)
  where r.tenant_id = p_tenant_id and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.position >= p_position and r.completed_at is null
    and p_seat = any (r.seats) and not p_seat = any (r.lost_seats)
    and not exists (
      select from dialectic.dialectic_generation_jobs j
      where j.tenant_id = r.tenant_id and j.session_id = r.session_id
        and j.iteration_number = r.iteration_number and j.stage_slug = r.stage_slug
        and dialectic.is_part_of_stage(j) and dialectic.seat_of(j) = p_seat
        and j.status = 'completed');
  update dialectic.dialectic_generation_jobs j
  set status = 'cancelled', status_reason = 'seat left'
  where j.tenant_id = p_tenant_id and j.session_id = p_session_id
    and j.iteration_number = p_iteration and not dialectic.is_ended(j.status)
    and dialectic.is_part_of_stage(j) and dialectic.seat_of(j) = p_seat
    and j.stage_slug in (
      select r.stage_slug from dialectic.dialectic_stage_runs r
      where r.tenant_id = p_tenant_id and r.session_id = p_session_id
        and r.iteration_number = p_iteration and r.position >= p_position);
end
$$;

-- The stages that a seat alone makes and has not ended become those of the lead, with their jobs.
-- A running one is taken from its worker first.
create or replace function dialectic.hand_over(
  p_tenant_id uuid, p_session_id uuid, p_iteration integer, p_seat integer
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_stages text[];
  v_occupant jsonb;
begin
  with handed as (
    update dialectic.dialectic_stage_runs r set seats = array[s.lead_model_index]
    from dialectic.dialectic_sessions s
    where s.tenant_id = p_tenant_id and s.id = p_session_id and s.lead_model_index <> p_seat
      and r.tenant_id = s.tenant_id and r.session_id = s.id and r.iteration_number = p_iteration
      and r.completed_at is null and r.seats = array[p_seat] and r.lost_seats = '{}'
    returning r.stage_slug)
  select array_agg(stage_slug) into v_stages from handed;
  if v_stages is null then
    return;
  end if;
  v_occupant := dialectic.describe_lead(p_tenant_id, p_session_id);
  update dialectic.dialectic_generation_jobs j set status = 'pending'
  where j.tenant_id = p_tenant_id and j.session_id = p_session_id
    and j.iteration_number = p_iteration and j.stage_slug = any (v_stages)
    and j.job_type in ('plan', 'execute') and j.status = 'processing';
  update dialectic.dialectic_generation_jobs j
  set payload = j.payload || v_occupant, retry_count = 0, lost_count = 0
  where j.tenant_id = p_tenant_id and j.session_id = p_session_id
    and j.iteration_number = p_iteration and j.stage_slug = any (v_stages)
    and j.job_type in ('plan', 'execute') and j.status <> 'completed'
    and dialectic.seat_of(j) = p_seat and j.payload ->> 'replaces' is null;
end
$$;

-- Who sits on the lead's seat, as jobs say it. Files tell two seats of one model apart by their
-- number: a job that the lead has had knows its name.
create or replace function dialectic.describe_lead(p_tenant_id uuid, p_session_id uuid)
returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select jsonb_build_object('model_index', s.lead_model_index, 'model_id', m.id,
      'model_name', m.api_identifier)
    || coalesce((
      select jsonb_build_object('slot', j.payload -> 'slot', 'seat_name', j.payload -> 'seat_name')
      from dialectic.dialectic_generation_jobs j
      where j.tenant_id = s.tenant_id and j.session_id = s.id and j.job_type = 'plan'
        and dialectic.seat_of(j) = s.lead_model_index and j.payload ->> 'model_name' = m.api_identifier
      order by j.created_at desc limit 1), jsonb_build_object('slot', 1, 'seat_name', ''))
  from dialectic.dialectic_sessions s
  join dialectic.ai_providers m
    on m.tenant_id = s.tenant_id and m.id = s.selected_model_ids[s.lead_model_index]
  where s.tenant_id = p_tenant_id and s.id = p_session_id
$$;

-- Tell followers and the user that a stage goes on without a seat, and why.
create or replace function dialectic.tell_lost_seat(
  p_job dialectic.dialectic_generation_jobs, p_left integer, p_seats integer
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_session dialectic.dialectic_sessions;
  v_error jsonb := p_job.error_details -> -1;
  v_data jsonb := dialectic.name_job(p_job) || jsonb_build_object(
    'seat', dialectic.seat_of(p_job), 'model_name', p_job.payload ->> 'model_name',
    'change', 'failed', 'remaining', p_left,
    'error', jsonb_build_object(
      'code', coalesce(v_error ->> 'code', p_job.status_reason, p_job.status::text),
      'message', coalesce(v_error ->> 'message', p_job.status_reason, p_job.status::text),
      'remedy', jsonb_build_object('action', 'replace_seat', 'session_id', p_job.session_id,
        'seat', dialectic.seat_of(p_job))));
begin
  perform dialectic.notify_session(
    p_job.tenant_id, p_job.session_id, 'session_seat_changed', v_data);
  select s.* into v_session from dialectic.dialectic_sessions s
  where s.tenant_id = p_job.tenant_id and s.id = p_job.session_id;
  perform dialectic.tell_user(
    p_job.tenant_id, p_job.session_id, 'session_seat_lost',
    format('%s goes on without %s', dialectic.name_project(v_session), v_data ->> 'model_name'),
    format('Seat %s (%s) failed in stage %s. The session goes on with %s of %s seats. You can replace '
      'the seat with another model. The error was: %s', v_data ->> 'seat',
      v_data ->> 'model_name', p_job.stage_slug, p_left, p_seats, v_data -> 'error' ->> 'message'),
    v_data -> 'error' -> 'remedy', null, v_data - 'error' - 'change');
end
$$;

-- For a user's request: let a seat of the current tenant's session leave.
create or replace function dialectic.drop_seat(p_session_id uuid, p_iteration integer, p_seat integer)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.leave_seat(dialectic.current_tenant(), p_session_id, p_iteration, p_seat, 1);
end
$$;

-- End the stages whose last missing part was that of a seat that left.
create or replace function dialectic.settle_stages(p_session_id uuid, p_iteration integer)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.settle_stage(r.tenant_id, r.session_id, r.iteration_number, r.stage_slug)
  from dialectic.dialectic_stage_runs r
  where r.tenant_id = dialectic.current_tenant() and r.session_id = p_session_id
    and r.iteration_number = p_iteration and r.completed_at is null;
end
$$;

-- Whether an update only gives a job that has not run to its end another seat or model.
create or replace function dialectic.is_reseated(
  p_old dialectic.dialectic_generation_jobs, p_new dialectic.dialectic_generation_jobs
) returns boolean
language plpgsql immutable
as $$
declare
  v_seat text[] := '{model_index,model_id,model_name,slot,seat_name}';
begin
  return p_old.job_type in ('plan', 'execute') and p_old.status not in ('processing', 'completed')
    and p_new.payload - v_seat = p_old.payload - v_seat;
end
$$;
