-- Trigger before a session's state is written: reject moves that are not in
-- dialectic_session_moves. Of a paused session the phase before the pause is the one that moves.
create or replace function dialectic.session_guard() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_to dialectic.dialectic_session_phase := coalesce(new.phase_before_pause, new.phase);
  v_from dialectic.dialectic_session_phase;
begin
  if tg_op = 'INSERT' then
    if new.phase in ('generating', 'paused') then
      raise exception 'a session cannot start as %', new.phase
        using errcode = 'DJ001', constraint = 'first_phase_is_allowed';
    end if;
    return new;
  end if;

  v_from := coalesce(old.phase_before_pause, old.phase);
  if v_from <> v_to and not exists (
    select from dialectic.dialectic_session_moves m
    where m.from_phase = v_from and m.to_phase = v_to
  ) then
    raise exception 'session % cannot move from % to %', old.id, v_from, v_to
      using errcode = 'DJ001', constraint = 'session_moves_by_the_table';
  end if;
  if (old.phase = 'paused') <> (new.phase = 'paused') and v_from <> v_to and v_to <> 'cancelled' then
    raise exception 'session % cannot move from % to % with a pause', old.id, old.phase, new.phase
      using errcode = 'DJ001', constraint = 'pause_keeps_the_phase';
  end if;
  if old.current_stage_slug <> new.current_stage_slug and v_from <> 'generating' and v_to <> 'pending' then
    raise exception 'session % cannot change its stage while it is %', old.id, v_from
      using errcode = 'DJ001', constraint = 'stage_changes_with_the_phase';
  end if;
  return new;
end
$$;
