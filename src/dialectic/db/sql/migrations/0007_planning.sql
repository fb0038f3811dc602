-- Planning: what a job makes, what a plan job still waits for, where a document stands among its
-- kind, and stages that are ordered before they begin.

alter table dialectic_generation_jobs
  -- The type of contribution that it makes.
  add column output_type text generated always as (payload ->> 'output_type') stored,
  -- The types of contribution whose arrival lets this plan job plan more.
  add column awaits text[] not null default '{}',
  -- Something it awaits arrived while it was at work: it looks again instead of waiting.
  add column is_poked boolean not null default false,
  -- More children may still be planned for its current step.
  add column is_step_open boolean not null default false;
create index jobs_awaiting on dialectic_generation_jobs (tenant_id, session_id, iteration_number)
  where awaits <> '{}';

-- On autopilot all stages of an iteration are made at once; a later one waits for its turn.
alter table dialectic_stage_runs
  add column position integer not null default 1 check (position >= 1),
  -- The last stage of the process, not just of this run.
  add column is_last boolean not null default false,
  alter column started_at drop not null,
  alter column started_at drop default,
  drop constraint dialectic_stage_runs_status_check,
  add constraint dialectic_stage_runs_status_check
    check (status in ('waiting', 'generating', 'complete', 'failed', 'cancelled')),
  drop constraint an_ended_stage_has_its_time,
  add constraint an_ended_stage_has_its_time
    check ((status in ('waiting', 'generating')) = (completed_at is null));

alter table dialectic_contributions
  -- Which of the session's models wrote it, from 1.
  add column model_index integer check (model_index >= 1),
  -- Its place among that model's contributions of its type, from 1, known before any exists.
  add column rank integer check (rank >= 1),
  -- The place, among all theses, of the one it descends from.
  add column origin integer check (origin >= 1),
  -- What it was made from, in the order in which it was read.
  add column source_contribution_ids uuid[] not null default '{}',
  -- Something that it was made from has changed since.
  add column is_stale boolean not null default false;
create index versions_of_a_contribution
  on dialectic_contributions (tenant_id, original_model_contribution_id)
  where original_model_contribution_id is not null;

alter table dialectic_project_resources
  -- A document that was cut out of a contribution, and which of the promised ones it is.
  add column source_contribution_id uuid,
  add column document_key text,
  add foreign key (tenant_id, source_contribution_id)
    references dialectic_contributions (tenant_id, id) on delete cascade;
create index documents_of_a_contribution
  on dialectic_project_resources (tenant_id, source_contribution_id)
  where source_contribution_id is not null;
