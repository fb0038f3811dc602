-- Drafts: the text of calls that are still being answered, for those who watch a session. None of
-- these functions locks a job, so no job waits for them.

-- Remember that someone watches sessions. A session of another tenant than the one named is skipped.
create or replace function dialectic.watch_drafts(
  p_tenant_ids uuid[], p_session_ids uuid[], p_for interval
) returns void
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into dialectic.dialectic_draft_watches as w (tenant_id, session_id, watched_until)
  select s.tenant_id, s.id, dialectic.clock() + p_for
  from (select distinct * from unnest(p_tenant_ids, p_session_ids)) as asked (tenant_id, session_id)
  join dialectic.dialectic_sessions s
    on s.tenant_id = asked.tenant_id and s.id = asked.session_id
  order by s.tenant_id, s.id
  on conflict (tenant_id, session_id) do update
  set watched_until = greatest(w.watched_until, excluded.watched_until)
$$;

-- Write the drafts of a worker's calls, all in one statement. Calls of sessions without a watcher
-- are skipped, and so are attempts that have ended. p_texts holds what follows the first p_ats
-- characters of each text. Returns how many characters are stored of each watched call: the worker
-- sends what follows those the next time, so a lost row mends itself.
create or replace function dialectic.write_drafts(
  p_tenant_ids uuid[], p_job_ids uuid[], p_attempts integer[], p_turns integer[], p_phases text[],
  p_ats integer[], p_texts text[], p_words integer[], p_text_ages interval[]
) returns table (tenant_id uuid, job_id uuid, chars integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_drafts dialectic.dialectic_drafts[];
  v_ats integer[];
begin
  select array_agg(row(j.tenant_id, j.id, j.session_id, g.attempt, g.turn,
      g.phase::dialectic.dialectic_call_phase, g.text,
      length(g.text), g.words, dialectic.clock() - g.text_age,
      dialectic.clock())::dialectic.dialectic_drafts order by j.tenant_id, j.id),
    array_agg(g.at order by j.tenant_id, j.id)
  into v_drafts, v_ats
  from unnest(p_tenant_ids, p_job_ids, p_attempts, p_turns, p_phases, p_ats, p_texts, p_words,
      p_text_ages)
    as g (tenant_id, job_id, attempt, turn, phase, at, text, words, text_age)
  join dialectic.dialectic_generation_jobs j
    on j.tenant_id = g.tenant_id and j.id = g.job_id
    and j.attempt_count = g.attempt and j.status::text = 'processing'
  join dialectic.dialectic_draft_watches w
    on w.tenant_id = j.tenant_id and w.session_id = j.session_id
    and w.watched_until > dialectic.clock();
  if v_drafts is null then
    return;
  end if;
  -- The same turn goes on: append what is new.
  update dialectic.dialectic_drafts d
  set phase = n.phase, text = d.text || n.text, chars = d.chars + n.chars, words = n.words,
      first_token_at = coalesce(d.first_token_at, n.first_token_at), updated_at = n.updated_at
  from unnest(v_drafts, v_ats) as n (tenant_id, job_id, session_id, attempt, turn, phase, text,
    chars, words, first_token_at, updated_at, at)
  where d.tenant_id = n.tenant_id and d.job_id = n.job_id
    and (d.attempt, d.turn, d.chars) = (n.attempt, n.turn, n.at)
    and (d.phase, d.words, n.chars) is distinct from (n.phase, n.words, 0);
  -- A new turn begins.
  insert into dialectic.dialectic_drafts as d
  select n.tenant_id, n.job_id, n.session_id, n.attempt, n.turn, n.phase,
    case when n.at = 0 then n.text else '' end, case when n.at = 0 then n.chars else 0 end,
    n.words, n.first_token_at, n.updated_at
  from unnest(v_drafts, v_ats) as n (tenant_id, job_id, session_id, attempt, turn, phase, text,
    chars, words, first_token_at, updated_at, at)
  on conflict on constraint dialectic_drafts_pkey do update
  set (attempt, turn, phase, text, chars, words, first_token_at, updated_at) = (
    excluded.attempt, excluded.turn, excluded.phase, excluded.text, excluded.chars,
    excluded.words, excluded.first_token_at, excluded.updated_at)
  where (d.attempt, d.turn) < (excluded.attempt, excluded.turn);
  return query
    select d.tenant_id, d.job_id, d.chars
    from unnest(v_drafts) as n
    join dialectic.dialectic_drafts d on d.tenant_id = n.tenant_id and d.job_id = n.job_id
    where (d.attempt, d.turn) = (n.attempt, n.turn);
end
$$;

-- Read what is new in the drafts of sessions. p_known_… says which characters and which phase of a
-- turn the reader has; of a turn that it does not know, it gets the end. Only running attempts are shown: a row that
-- was written in the moment in which its attempt ended is never seen.
create or replace function dialectic.read_drafts(
  p_tenant_ids uuid[], p_session_ids uuid[], p_known_job_ids uuid[], p_known_attempts integer[],
  p_known_turns integer[], p_known_chars integer[], p_known_phases text[], p_chars_max integer
) returns table (
  tenant_id uuid, session_id uuid, job_id uuid, attempt integer, turn integer, phase text, at integer,
  text text, words integer
)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select d.tenant_id, d.session_id, d.job_id, d.attempt, d.turn, d.phase::text, start.at,
    substr(d.text, start.at + 1, p_chars_max), d.words
  from unnest(p_tenant_ids, p_session_ids) as watched (tenant_id, session_id)
  join dialectic.dialectic_drafts d
    on d.tenant_id = watched.tenant_id and d.session_id = watched.session_id
  join dialectic.dialectic_generation_jobs j
    on j.tenant_id = d.tenant_id and j.id = d.job_id
    and j.attempt_count = d.attempt and j.status::text = 'processing'
  left join unnest(p_known_job_ids, p_known_attempts, p_known_turns, p_known_chars, p_known_phases)
      as known (job_id, attempt, turn, chars, phase)
    on known.job_id = d.job_id and known.attempt = d.attempt and known.turn = d.turn
  cross join lateral (
    -- A reader that has fallen behind gets the end.
    select case when d.chars - known.chars <= 4 * p_chars_max then known.chars
      else greatest(0, d.chars - p_chars_max) end as at
  ) start
  where d.chars > coalesce(known.chars, 0) or d.phase::text is distinct from known.phase
$$;

-- Delete drafts whose attempt is over, and watches that have ended, of all tenants: those of a
-- worker that died. Returns how many.
create or replace function dialectic.sweep_drafts() returns integer
language sql security definer set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from dialectic.dialectic_drafts d
    where not exists (
      select from dialectic.dialectic_generation_jobs j
      where j.tenant_id = d.tenant_id and j.id = d.job_id
        and j.attempt_count = d.attempt and j.status::text = 'processing'
        and (j.suspect_at is null or j.lease_until > dialectic.now())
    )
    returning 1
  ), unwatched as (
    delete from dialectic.dialectic_draft_watches w where w.watched_until < dialectic.clock()
    returning 1
  )
  select ((select count(*) from gone) + (select count(*) from unwatched))::integer
$$;
