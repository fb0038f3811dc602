-- Plan jobs that wait for what others make.

-- What a plan job awaits are types, of any model's making (`thesis`) or of one's (`thesis@2`).
create or replace function dialectic.list_awaited_types(p_awaits text[]) returns text[]
language sql immutable
as $$
  select array(select split_part(a.name, '@', 1) from unnest(p_awaits) a (name))
$$;

-- Whether a plan job awaits anything of others than its own model: what those do matters to it.
create or replace function dialectic.awaits_others(p_awaits text[]) returns boolean
language sql immutable
as $$
  select exists (select from unnest(p_awaits) a (name) where strpos(a.name, '@') = 0)
$$;

-- Whether the end of one job lets a plan job look again: it awaits what that job made, or what the
-- children of that job made (also of another model: that no more will come may depend on all), or a
-- whole part of the iteration has failed and what it awaits may never come.
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

-- The plan jobs of a job's iteration that its end lets look again.
create or replace function dialectic.list_hungry(p_job dialectic.dialectic_generation_jobs)
returns setof dialectic.dialectic_generation_jobs
language sql stable
as $$
  select j.* from dialectic.dialectic_generation_jobs j
  where j.tenant_id = p_job.tenant_id and j.session_id = p_job.session_id
    and j.iteration_number = p_job.iteration_number
    and j.awaits <> '{}' and dialectic.is_hungry_for(j, p_job)
$$;

-- A job that has ended, and with it those who will fail because they waited for it.
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

-- Everyone whom the end of a job may move, locked in the order of their ids before any of them is
-- touched: two jobs that end together lock the same rows in the same order. Those beside its parent
-- are among them: with this job a step may have ended, and then they look again. So are those who
-- look again when its parent ends, which it may with this job: in its last step, or if this failed.
-- With a failure its stage may fail, and then those of later stages end, whatever they wait for.
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
      and j.status in ('waiting_for_children', 'waiting_for_prerequisite')
      and j.parent_job_id is null and j.job_type is distinct from 'combine'
  ) moved
  join dialectic.dialectic_generation_jobs j using (tenant_id, id)
  order by j.id
  for no key update of j;
end
$$;

-- Whether a plan job awaits what a part of a stage has made, which may have ended with this job.
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

-- Let every plan job that is hungry look again: at once if it waits, after what it is doing now
-- otherwise.
create or replace function dialectic.poke_planners(p_job dialectic.dialectic_generation_jobs)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform dialectic.poke(j.tenant_id, j.id) from dialectic.list_hungry(p_job) j;
end
$$;

-- A plan job has gone on to its next step: those of other models that wait for what it made may know
-- only now that no more of it will come.
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
  set is_poked = j.status not in ('waiting_for_children', 'waiting_for_prerequisite'),
      status_reason = case
        when j.status not in ('waiting_for_children', 'waiting_for_prerequisite') then j.status_reason
      end,
      status = case j.status
        when 'waiting_for_children' then 'pending_next_step'
        when 'waiting_for_prerequisite' then 'pending'
        else j.status
      end
  where j.tenant_id = p_tenant_id and j.id = p_job_id and not dialectic.is_ended(j.status)
    -- Once is enough: of a hundred jobs that end together the first has said it.
    and (not j.is_poked or j.status in ('waiting_for_children', 'waiting_for_prerequisite'));
end
$$;

-- A plan job that found its children ended when it came to wait for them has passed a step, and no
-- job ended at that moment: those beside it that await what the step made must look again.
create or replace function dialectic.poke_beside(p_plan dialectic.dialectic_generation_jobs)
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
