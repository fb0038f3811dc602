-- Messages to the user of a session. Each is written in the commit that causes it, once, and is
-- resolved in the commit that ends its cause.

-- "1 document", "3 documents".
create or replace function dialectic.count_of(p_count bigint, p_noun text) returns text
language sql immutable
as $$
  select format('%s %s%s', p_count, p_noun, case when p_count = 1 then '' else 's' end)
$$;

-- The name of the session's project.
create or replace function dialectic.name_project(p_session dialectic.dialectic_sessions)
returns text
language sql stable
as $$
  select p.project_name from dialectic.dialectic_projects p
  where p.tenant_id = p_session.tenant_id and p.id = p_session.project_id
$$;

-- The name of the session's current stage, for people.
create or replace function dialectic.name_stage(p_session dialectic.dialectic_sessions)
returns text
language sql stable
as $$
  select t.display_name from dialectic.dialectic_stages t
  where t.tenant_id = p_session.tenant_id
    and t.process_template_id = p_session.process_template_id
    and t.slug = p_session.current_stage_slug
$$;

-- The finished documents of an iteration; of one stage, if it is named.
create or replace function dialectic.count_documents(
  p_session dialectic.dialectic_sessions, p_stage text default null,
  out written bigint, out incomplete bigint
)
language sql stable
as $$
  select count(*), count(*) filter (where c.is_incomplete)
  from dialectic.dialectic_contributions c
  where c.tenant_id = p_session.tenant_id and c.session_id = p_session.id
    and c.iteration_number = p_session.iteration_count and not c.is_intermediate
    and c.is_latest_edit and (p_stage is null or c.stage = p_stage)
$$;

-- Trigger after a session's phase has changed: what was told of the last one is over. Of a paused
-- session the phase before the pause is the one that changes.
create or replace function dialectic.session_moved() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_from dialectic.dialectic_session_phase := coalesce(old.phase_before_pause, old.phase);
  v_to dialectic.dialectic_session_phase := coalesce(new.phase_before_pause, new.phase);
begin
  if v_from = v_to then
    return null;
  end if;
  if v_from in ('stage_complete', 'iteration_complete', 'failed') then
    perform dialectic.resolve_cause(new.tenant_id, format('session %s phase', new.id));
  end if;
  if v_to = 'failed' then
    perform dialectic.tell_session_failed(new);
  elsif v_to in ('stage_complete', 'iteration_complete') then
    perform dialectic.tell_session_complete(new, v_to);
  end if;
  return null;
end
$$;

-- A stage, or all of them, are complete: the user has something to read.
create or replace function dialectic.tell_session_complete(
  p_session dialectic.dialectic_sessions, p_phase dialectic.dialectic_session_phase
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_project text := dialectic.name_project(p_session);
  v_stage text := dialectic.name_stage(p_session);
  v_is_last boolean := p_phase = 'iteration_complete';
  v_is_done boolean := v_is_last or p_session.current_stage_slug = p_session.until_stage_slug;
  v_count record;
  v_message text;
begin
  select * into v_count from dialectic.count_documents(
    p_session, case when not v_is_done then p_session.current_stage_slug end);
  v_message := case
    when v_is_last then format('Iteration %s is complete, with %s.',
      p_session.iteration_count, dialectic.count_of(v_count.written, 'document'))
    when v_is_done then format('All stages up to %s are complete, with %s. Start the next stage to go on.',
      v_stage, dialectic.count_of(v_count.written, 'document'))
    else format('Stage %s has written %s. Read and give feedback, then start the next stage.',
      v_stage, dialectic.count_of(v_count.written, 'document'))
  end;
  if v_count.incomplete > 0 then
    v_message := format('%s %s incomplete.', v_message, case
      when v_count.incomplete = 1 then 'One document is' else v_count.incomplete || ' documents are' end);
  end if;
  perform dialectic.tell_user(
    p_session.tenant_id, p_session.id,
    case when v_is_done then 'session_done' else 'session_waits_for_you' end,
    format(case
      when v_is_last then '%s is done'
      when v_is_done then '%s is done up to %s'
      else '%s: %s is complete'
    end, v_project, v_stage),
    v_message,
    jsonb_build_object('session_id', p_session.id,
      'action', case when v_is_last then 'list_contributions' else 'start_next' end),
    format('session %s phase', p_session.id),
    jsonb_build_object('stageSlug', p_session.current_stage_slug,
      'iterationNumber', p_session.iteration_count));
end
$$;

-- A stage failed: name the first job that failed by itself, not because of another job.
create or replace function dialectic.tell_session_failed(p_session dialectic.dialectic_sessions)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_job dialectic.dialectic_generation_jobs;
  v_error jsonb;
  v_count record;
begin
  select j.* into v_job
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_session.tenant_id and j.session_id = p_session.id
    and j.iteration_number = p_session.iteration_count
    and j.stage_slug = p_session.current_stage_slug
    and j.status in ('failed', 'retry_loop_failed')
  order by j.status_reason in ('child_failed', 'prerequisite_failed'), j.completed_at, j.id
  limit 1;
  v_error := v_job.error_details -> -1;
  select * into v_count from dialectic.count_documents(p_session);
  perform dialectic.tell_user(
    p_session.tenant_id, p_session.id, 'session_failed',
    format('%s: %s failed', dialectic.name_project(p_session), dialectic.name_stage(p_session)),
    format('%s%s Remove the cause, then run the failed jobs again.',
      coalesce(
        coalesce(v_job.payload ->> 'model_name' || ': ', '')
          || coalesce(v_error ->> 'message', v_job.status_reason),
        'A job was cancelled, so the stage has no result.'),
      case v_count.written
        when 0 then ''
        when 1 then ' The document written so far is kept.'
        else format(' The %s documents written so far are kept.', v_count.written)
      end),
    coalesce(
      nullif(v_error -> 'remedy', 'null'),
      jsonb_build_object('action', 'retry', 'session_id', p_session.id)),
    format('session %s phase', p_session.id),
    jsonb_build_object('stageSlug', p_session.current_stage_slug,
      'iterationNumber', p_session.iteration_count, 'code', v_error -> 'code'));
end
$$;

-- Trigger at the commit that paused or resumed a job: all jobs of a session that wait for the same
-- thing are one cause. It runs last, after the wallet is locked: the cause is locked after it.
create or replace function dialectic.pause_changed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_reason text := case when new.status = 'paused' then new.status_reason else old.status_reason end;
  v_cause text := format('session %s paused: %s', new.session_id, v_reason);
  v_job dialectic.dialectic_generation_jobs;
begin
  -- A person's own pause needs no message.
  if v_reason is null or v_reason in ('session paused', 'job paused') then
    return null;
  end if;
  perform dialectic.lock_cause(new.tenant_id, v_cause);
  select j.* into v_job
  from dialectic.dialectic_generation_jobs j
  where j.tenant_id = new.tenant_id and j.session_id = new.session_id and j.status = 'paused'
    and j.status_reason = v_reason
  order by j.id
  limit 1;
  if found then
    perform dialectic.tell_pause(v_job, v_cause);
  else
    perform dialectic.resolve_cause(new.tenant_id, v_cause);
  end if;
  return null;
end
$$;

create or replace function dialectic.tell_pause(
  p_job dialectic.dialectic_generation_jobs, p_cause text
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_session dialectic.dialectic_sessions;
  v_error jsonb := p_job.error_details -> -1;
begin
  select s.* into v_session from dialectic.dialectic_sessions s
  where s.tenant_id = p_job.tenant_id and s.id = p_job.session_id;
  perform dialectic.tell_user(
    p_job.tenant_id, p_job.session_id,
    case p_job.status_reason
      when 'insufficient_funds' then 'session_needs_money'
      when 'spend_needs_approval' then 'session_needs_approval'
      when 'key_missing' then 'session_needs_key'
      else 'session_blocked'
    end,
    format(case p_job.status_reason
      when 'insufficient_funds' then '%s waits for money'
      when 'spend_needs_approval' then '%s waits for your approval'
      when 'key_missing' then '%s waits for an API key'
      else '%s is blocked'
    end, dialectic.name_project(v_session)),
    format('%s What is written so far is kept.', coalesce(v_error ->> 'message', p_job.status_reason)),
    coalesce(
      nullif(v_error -> 'remedy', 'null'),
      jsonb_build_object('action', 'resume', 'session_id', p_job.session_id)),
    p_cause,
    dialectic.name_job(p_job) || jsonb_build_object('code', p_job.status_reason));
end
$$;
