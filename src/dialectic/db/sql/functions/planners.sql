-- Plan jobs that wait for the contributions of other jobs.

-- A plan job awaits types of contribution, from any model (`thesis`) or one model (`thesis@2`).
create or replace function dialectic.list_awaited_types(p_awaits text[]) returns text[]
language sql immutable
as $$
  select array(select split_part(a.name, '@', 1) from unnest(p_awaits) a (name))
$$;

-- Whether a plan job awaits contributions of other models than its own.
create or replace function dialectic.awaits_others(p_awaits text[]) returns boolean
language sql immutable
as $$
  select exists (select from unnest(p_awaits) a (name) where strpos(a.name, '@') = 0)
$$;

-- Whether the end of a job wakes a plan job: it awaits what that job or its children made (also for
-- another model: whether more will come may depend on all of them), or part of the iteration failed
-- and the awaited input may never come.
create or replace function dialectic.is_hungry_for(
  p_plan dialectic.dialectic_generation_jobs, p_job dialectic.dialectic_generation_jobs
) returns boolean
language sql stable
as $$
  select p_plan.awaits <> '{}' and not dialectic.is_ended(p_plan.status) and p_plan.id <> p_job.id
    and (
      p_plan.awaits && array[
        p_job.output_type, p_job.output_type || '@' || (p_job.payload ->> 'model_index')]
      or (p_job.parent_job_id is null and p_job.job_type is distinct from 'combine' and (
        p_job.status <> 'completed' or exists (
          select from dialectic.dialectic_generation_jobs c
          where c.tenant_id = p_job.tenant_id and c.parent_job_id = p_job.id
            and c.output_type = any (dialectic.list_awaited_types(p_plan.awaits))
        )
      ))
    )
$$;

-- The plan jobs of a job's iteration that its end wakes.
create or replace function dialectic.list_hungry(p_job dialectic.dialectic_generation_jobs)
returns setof dialectic.dialectic_generation_jobs
language sql stable
as $$
  select j.* from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_job.tenant_id and j.session_id = p_job.session_id
    and j.iteration_number = p_job.iteration_number
    and j.awaits <> '{}' and dialectic.is_hungry_for(j, p_job)
$$;

-- A job that has ended, and the jobs that fail because they waited for it.
create or replace function dialectic.list_ended(p_job dialectic.dialectic_generation_jobs)
returns setof dialectic.dialectic_generation_jobs
language sql stable
as $$
  select p_job.*
  union all
  select w.* from dialectic.dialectic_generation_jobs w
  where p_job.status <> 'completed' and w.tenant_id = p_job.tenant_id
    and w.prerequisite_job_id = p_job.id and w.status = 'waiting_for_prerequisite'
$$;

-- Lock every job that the end of a job may move, in the order of their ids, before changing any:
-- two jobs that end concurrently lock the same rows in the same order. This includes:
--   the parent's siblings, which are woken if this job's end finishes a step
--   the jobs that the parent's end wakes: it may end with this job, in its last step or on failure
--   after a failure, the jobs of later stages: the stage may fail, which cancels them, or the seat
--   may leave, which cancels its jobs
create or replace function dialectic.lock_planners(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform from (
    select j.tenant_id, j.id
    from dialectic.list_ended(p_job) e
    join dialectic.dialectic_generation_jobs j on j.tenant_id = e.tenant_id and j.id = e.parent_job_id
    union
    select j.tenant_id, j.id
    from dialectic.list_ended(p_job) e cross join lateral dialectic.list_hungry(e) j
    union
    select j.tenant_id, j.id
    from dialectic.dialectic_generation_jobs j
    where p_job.parent_job_id is not null
      and j.tenant_id = p_job.tenant_id and j.session_id = p_job.session_id
      and j.iteration_number = p_job.iteration_number
      and j.awaits <> '{}' and not dialectic.is_ended(j.status)
      and (
        j.stage_slug = p_job.stage_slug or p_job.status <> 'completed'
        or dialectic.awaits_of_part(j, p_job)
      )
    union
    select j.tenant_id, j.id
    from dialectic.dialectic_generation_jobs j
    where p_job.status <> 'completed'
      and j.tenant_id = p_job.tenant_id and j.session_id = p_job.session_id
      and j.iteration_number = p_job.iteration_number and j.stage_slug <> p_job.stage_slug
      and (
        dialectic.is_waiting(j.status)
        or dialectic.seat_of(j) = dialectic.seat_of(p_job) and not dialectic.is_ended(j.status)
      )
      and j.parent_job_id is null and j.job_type is distinct from 'combine'
  ) moved
  join dialectic.dialectic_generation_jobs j using (tenant_id, id)
  order by j.id
  for no key update of j;
end
$$;

-- Whether a plan job awaits the output of a part of a stage that this job may have finished.
create or replace function dialectic.awaits_of_part(
  p_plan dialectic.dialectic_generation_jobs, p_job dialectic.dialectic_generation_jobs
) returns boolean
language sql stable
as $$
  select exists (
    select from dialectic.dialectic_generation_jobs p
    join dialectic.dialectic_generation_jobs c
      on c.tenant_id = p.tenant_id and c.parent_job_id = p.id
      and c.output_type = any (dialectic.list_awaited_types(p_plan.awaits))
    where p.tenant_id = p_job.tenant_id and p.id = p_job.parent_job_id
      and p.current_step >= p.total_steps
  )
$$;

-- Wake the plan jobs that await this input: at once if they wait, else after their current attempt.
create or replace function dialectic.poke_planners(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.poke(j.tenant_id, j.id) from dialectic.list_hungry(p_job) j;
end
$$;

-- A plan job has moved to its next step. Wake the plan jobs of other models that await its output:
-- only now is it certain that no more will come.
create or replace function dialectic.poke_stage(p_plan dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.poke(waiting.tenant_id, waiting.id)
  from (
    select j.tenant_id, j.id
    from dialectic.dialectic_generation_jobs j
    where j.tenant_id = p_plan.tenant_id and j.session_id = p_plan.session_id
      and j.iteration_number = p_plan.iteration_number and j.stage_slug = p_plan.stage_slug
      and j.awaits <> '{}' and dialectic.awaits_others(j.awaits)
      and not dialectic.is_ended(j.status) and j.id <> p_plan.id
    order by j.id
    for no key update
  ) waiting;
end
$$;

create or replace function dialectic.poke(p_tenant_id uuid, p_job_id uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update dialectic.dialectic_generation_jobs j
  set is_poked = not dialectic.is_waiting(j.status),
      status_reason = case when not dialectic.is_waiting(j.status) then j.status_reason end,
      status = case j.status
        when 'waiting_for_children' then 'pending_next_step'
        when 'waiting_for_prerequisite' then 'pending'
        else j.status
      end
  where j.tenant_id = p_tenant_id and j.id = p_job_id and not dialectic.is_ended(j.status)
    -- Skip jobs that are already marked: many jobs may end at once.
    and (not j.is_poked or dialectic.is_waiting(j.status));
end
$$;

-- A plan job whose children had ended before it began to wait finishes a step without the end of a
-- job. Wake its siblings that await the step's output.
create or replace function dialectic.poke_siblings(p_plan dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  v_child dialectic.dialectic_generation_jobs;
begin
  select c.* into v_child
  from dialectic.dialectic_generation_jobs p
  join dialectic.dialectic_generation_jobs c
    on c.tenant_id = p.tenant_id and c.parent_job_id = p.id and c.step_number = p_plan.current_step
  where p.tenant_id = p_plan.tenant_id and p.id = p_plan.id and p.current_step > p_plan.current_step
  limit 1;
  if found then
    perform dialectic.poke_planners(v_child);
  end if;
end
$$;
