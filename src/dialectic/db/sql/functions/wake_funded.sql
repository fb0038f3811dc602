-- Wake the jobs that wait for money of a wallet which other calls held, oldest first: as many as the
-- free money of wallet and budgets now pays for. A job that nothing held can help any more is woken
-- too: it finds that, and pauses. Called wherever money is released or added, with the wallet
-- locked, so it never waits for a job: locked ones are skipped, and the sweeper finds them later.
-- Returns how many.
create or replace function dialectic.wake_funded(p_tenant_id uuid, p_wallet_id uuid) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_free bigint;
  v_held bigint;
  v_left bigint;
  v_session_held bigint;
  v_count integer := 0;
  -- What the jobs woken here will take, by kind of money, in all and by session.
  v_taken jsonb := '{}';
  v_kind text;
  v_kind_of_session text;
begin
  for v_job in
    select j.* from dialectic.dialectic_generation_jobs j
    join dialectic.dialectic_sessions s on s.tenant_id = j.tenant_id and s.id = j.session_id
    where j.tenant_id = p_tenant_id and j.awaited_credits is not null and j.status = 'retrying'
      and s.wallet_id = p_wallet_id
    order by j.run_at, j.id
    limit 500
    for no key update of j skip locked
  loop
    v_kind := case when v_job.awaits_play_money then 'play' else 'real' end;
    v_kind_of_session := v_kind || v_job.session_id;
    select f.available_credits - coalesce((v_taken ->> v_kind)::bigint, 0),
      f.budget_left_credits - coalesce((v_taken ->> v_kind_of_session)::bigint, 0),
      f.held_credits + coalesce((v_taken ->> v_kind)::bigint, 0),
      f.budget_held_credits + coalesce((v_taken ->> v_kind_of_session)::bigint, 0)
    into v_free, v_left, v_held, v_session_held
    from dialectic.read_funds(
      p_tenant_id, p_wallet_id, v_job.session_id, v_job.awaits_play_money) f;
    continue when (v_job.awaited_credits > v_free and v_held > 0)
      or (v_job.awaited_credits > v_left and v_session_held > 0);
    v_taken := v_taken || jsonb_build_object(
      v_kind, coalesce((v_taken ->> v_kind)::bigint, 0) + v_job.awaited_credits,
      v_kind_of_session,
      coalesce((v_taken ->> v_kind_of_session)::bigint, 0) + v_job.awaited_credits);
    update dialectic.dialectic_generation_jobs j
    set run_at = dialectic.now(), awaited_credits = null, dispatch_count = j.dispatch_count + 1
    where j.tenant_id = v_job.tenant_id and j.id = v_job.id
    returning j.* into v_job;
    perform dialectic.dispatch(v_job);
    v_count := v_count + 1;
  end loop;
  return v_count;
end
$$;
