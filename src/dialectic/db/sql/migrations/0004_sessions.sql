-- Projects, their sessions, and the stages that sessions run.

create table dialectic_projects (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  user_id uuid not null references users (id),
  project_name text not null check (length(project_name) between 1 and 500),
  slug text not null check (slug ~ '^[a-z0-9][a-z0-9-]{0,63}$'),
  domain_id uuid not null,
  user_domain_overlay_values jsonb not null default '{}',
  initial_user_prompt text not null check (initial_user_prompt <> ''),
  status text not null default 'new' check (status in ('new', 'active', 'archived')),
  created_at timestamptz not null default dialectic.now(),
  -- The transaction that last changed the row: followers read what changed since they looked. Every
  -- table that they follow has this column, and a trigger that writes it (functions/changes.sql).
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id),
  foreign key (tenant_id, domain_id) references dialectic_domains (tenant_id, id),
  -- The slug names the project's folder: two projects never share one.
  unique (tenant_id, slug)
);
create index projects_newest_first on dialectic_projects (tenant_id, created_at desc);
create index projects_changed on dialectic_projects (tenant_id, changed_in);

-- A session's state is its stage and its phase. The phase changes only as dialectic_session_moves
-- allows; functions/session_guard.sql rejects everything else.
create type dialectic_session_phase as enum (
  'pending',            -- the stage has not started
  'generating',         -- the stage's jobs run
  'stage_complete',     -- the stage is complete, and the next one can start
  'iteration_complete', -- the last stage of the process is complete
  'failed',             -- the stage ended without all its documents
  'paused',             -- until someone resumes it; phase_before_pause says to what
  'cancelled'           -- for good
);

-- A pause changes no phase: phase_before_pause keeps it, and it may go on while the session is
-- paused.
create table dialectic_session_moves (
  from_phase dialectic_session_phase not null,
  to_phase dialectic_session_phase not null,
  meaning text not null,
  primary key (from_phase, to_phase)
);
insert into dialectic_session_moves (from_phase, to_phase, meaning) values
  ('pending', 'generating', 'someone starts the stage'),
  ('pending', 'cancelled', 'someone cancels it'),
  ('generating', 'stage_complete', 'the last stage of this run is complete'),
  ('generating', 'pending', 'a stage left no dissent to wait for, and the next one follows'),
  ('generating', 'iteration_complete', 'the last stage of the process is complete'),
  ('generating', 'failed', 'a stage ended without all its documents'),
  ('generating', 'cancelled', 'someone cancels it'),
  ('stage_complete', 'pending', 'someone goes on to the next stage or iteration'),
  ('stage_complete', 'cancelled', 'someone cancels it'),
  ('iteration_complete', 'pending', 'someone goes on to the next iteration'),
  ('iteration_complete', 'cancelled', 'someone cancels the rest of its jobs'),
  ('failed', 'generating', 'someone retries it'),
  ('failed', 'cancelled', 'someone cancels the rest of its jobs');

create table dialectic_sessions (
  tenant_id uuid not null,
  id uuid not null,
  project_id uuid not null,
  user_id uuid not null references users (id),
  process_template_id uuid not null,
  wallet_id uuid not null,
  -- What the session is about beyond the project's prompt; a part of every prompt.
  session_description text not null default '',
  -- The models of its seats, by number. A seat that left keeps its number and its entry.
  selected_model_ids uuid[] not null
    check (cardinality(selected_model_ids) between 1 and 60),
  -- The seats that left: dropped by a user, or failed while the others go on.
  dropped_seats integer[] not null default '{}',
  lead_model_index integer not null default 1 check (lead_model_index >= 1),
  current_stage_slug text not null,
  until_stage_slug text not null,
  iteration_count integer not null default 1 check (iteration_count >= 1),
  phase dialectic_session_phase not null default 'pending',
  -- The phase of a paused session, which resuming restores.
  phase_before_pause dialectic_session_phase
    check (phase_before_pause not in ('paused', 'cancelled')),
  is_autopilot boolean not null default true,
  -- On autopilot, a stage that left a weighty dissent open waits for a person after all.
  pause_on_dissent boolean not null default false,
  continue_until_complete boolean not null default true,
  -- A stage fails if any seat fails, whatever the process says.
  wait_for_all boolean not null default false,
  max_output_tokens integer check (max_output_tokens > 0),
  -- Whether calls wait for money rather than get a shorter answer for lack of it.
  full_answers_only boolean not null default false,
  -- Whether a user has approved all calls above the automatic spending limit.
  approve_spend boolean not null default false,
  max_retries integer not null check (max_retries >= 0),
  idempotency_key text,
  created_at timestamptz not null default dialectic.now(),
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id),
  foreign key (tenant_id, project_id) references dialectic_projects (tenant_id, id) on delete cascade,
  foreign key (tenant_id, process_template_id) references dialectic_process_templates (tenant_id, id),
  constraint current_stage_is_in_the_process
    foreign key (tenant_id, process_template_id, current_stage_slug)
    references dialectic_stages (tenant_id, process_template_id, slug),
  constraint last_stage_is_in_the_process
    foreign key (tenant_id, process_template_id, until_stage_slug)
    references dialectic_stages (tenant_id, process_template_id, slug),
  foreign key (tenant_id, wallet_id) references token_wallets (tenant_id, id),
  unique (tenant_id, idempotency_key),
  constraint paused_remembers_what_was check ((phase = 'paused') = (phase_before_pause is not null)),
  constraint only_autopilot_pauses_on_dissent check (is_autopilot or not pause_on_dissent),
  constraint lead_is_one_of_the_models check (lead_model_index <= cardinality(selected_model_ids)),
  constraint a_seat_is_left check (
    cardinality(dropped_seats) < cardinality(selected_model_ids)
    and 0 < all (dropped_seats) and cardinality(selected_model_ids) >= all (dropped_seats))
);
create index sessions_newest_first on dialectic_sessions (tenant_id, created_at desc);
create index sessions_to_judge on dialectic_sessions (tenant_id, id)
  where pause_on_dissent and phase = 'generating';
create index sessions_changed on dialectic_sessions (tenant_id, changed_in);
-- The first eight digits of its id name a session's folder, within its project.
create unique index session_folders on dialectic_sessions (tenant_id, project_id, left(id::text, 8));

-- One stage of one iteration: its totals, known when it starts, and how far it is. On autopilot all
-- stages of an iteration are made at once, and a later one waits for its inputs. The row is locked
-- when a root job ends, so that the last of several that end together sees all others.
create table dialectic_stage_runs (
  tenant_id uuid not null,
  session_id uuid not null,
  iteration_number integer not null check (iteration_number >= 1),
  stage_slug text not null,
  position integer not null default 1 check (position >= 1),
  -- The last stage of the process, not just of this run.
  is_last boolean not null default false,
  status text not null default 'generating'
    check (status in ('waiting', 'generating', 'complete', 'failed', 'cancelled')),
  planned_units integer not null check (planned_units >= 1),
  finished_units integer not null default 0 check (finished_units >= 0),
  -- The same by step, under the type of its documents: {"thesis": {"label", "planned", "finished"}}.
  step_units jsonb,
  -- The seats that take part, and those of them without which the stage ended.
  seats integer[] not null default '{1}' check (cardinality(seats) >= 1),
  lost_seats integer[] not null default '{}' check (lost_seats <@ seats),
  started_at timestamptz,
  completed_at timestamptz,
  primary key (tenant_id, session_id, iteration_number, stage_slug),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  constraint an_ended_stage_has_its_time
    check ((status in ('waiting', 'generating')) = (completed_at is null)),
  constraint progress_stays_within_the_plan check (finished_units <= planned_units)
);
