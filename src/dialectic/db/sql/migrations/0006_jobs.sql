-- Jobs. The row is the source of truth; the queue only carries its id. A job's status changes only
-- as dialectic_job_moves allows; functions/job_guard.sql rejects everything else.

create type dialectic_job_status as enum (
  'pending',                  -- runnable: never started, or given back
  'processing',               -- a worker holds the lease
  'waiting_for_children',     -- a plan job until its children have ended
  'pending_next_step',        -- runnable: the children of a step have ended, the next step is due
  'waiting_for_prerequisite', -- until another job has ended
  'pending_continuation',     -- runnable: goes on with an answer that was cut off
  'retrying',                 -- runnable from run_at on, after an error that may pass
  'paused',                   -- until someone resumes it; status_reason says why
  'completed',                -- ended: its work is saved
  'failed',                   -- ended: an error that no retry mends
  'retry_loop_failed',        -- ended: retries are used up
  'cancelled'                 -- ended: its result is not wanted any more
);

create table dialectic_job_moves (
  from_status dialectic_job_status not null,
  to_status dialectic_job_status not null,
  meaning text not null,
  primary key (from_status, to_status)
);
insert into dialectic_job_moves (from_status, to_status, meaning) values
  ('pending', 'processing', 'a worker claims it'),
  ('pending', 'paused', 'its session is paused'),
  ('pending', 'cancelled', 'its result is not wanted any more'),
  ('pending_next_step', 'processing', 'a worker claims it'),
  ('pending_next_step', 'paused', 'its session is paused'),
  ('pending_next_step', 'cancelled', 'its result is not wanted any more'),
  ('pending_continuation', 'processing', 'a worker claims it'),
  ('pending_continuation', 'paused', 'its session is paused'),
  ('pending_continuation', 'cancelled', 'its result is not wanted any more'),
  ('retrying', 'processing', 'a worker claims it'),
  ('retrying', 'paused', 'its session is paused'),
  ('retrying', 'cancelled', 'its result is not wanted any more'),
  ('processing', 'pending', 'a worker gives it back unfinished'),
  ('processing', 'waiting_for_children', 'its children are planned'),
  ('processing', 'waiting_for_prerequisite', 'another job must end first'),
  ('processing', 'pending_continuation', 'a turn is saved and another is due'),
  ('processing', 'retrying', 'an error that may pass'),
  ('processing', 'paused', 'it needs money, approval or a working provider'),
  ('processing', 'completed', 'its work is saved'),
  ('processing', 'failed', 'an error that no retry mends'),
  ('processing', 'retry_loop_failed', 'retries are used up'),
  ('processing', 'cancelled', 'its result is not wanted any more'),
  ('waiting_for_children', 'pending_next_step', 'the last child has ended and a step is left'),
  ('waiting_for_children', 'completed', 'the last child of the last step has ended'),
  ('waiting_for_children', 'failed', 'a child failed and the step cannot do without it'),
  ('waiting_for_children', 'cancelled', 'its result is not wanted any more'),
  ('waiting_for_prerequisite', 'pending', 'the prerequisite has completed'),
  ('waiting_for_prerequisite', 'failed', 'the prerequisite has failed'),
  ('waiting_for_prerequisite', 'cancelled', 'its result is not wanted any more'),
  ('paused', 'pending', 'someone resumes it'),
  ('paused', 'cancelled', 'its result is not wanted any more'),
  ('failed', 'pending', 'someone runs it again'),
  ('retry_loop_failed', 'pending', 'someone runs it again'),
  ('cancelled', 'pending', 'someone runs it again');

create table dialectic_generation_jobs (
  tenant_id uuid not null,
  -- Derived from the work, so that planning twice inserts the job once.
  id uuid not null,
  session_id uuid not null,
  parent_job_id uuid,
  prerequisite_job_id uuid,
  target_contribution_id uuid,
  stage_slug text not null,
  iteration_number integer not null check (iteration_number >= 1),
  payload jsonb not null,
  -- The router reads only this; an unknown type fails the job, not the insert.
  job_type text generated always as (payload ->> 'job_type') stored,
  -- The type of contribution that it makes.
  output_type text generated always as (payload ->> 'output_type') stored,
  status dialectic_job_status not null default 'pending',
  status_reason text,
  priority integer not null default 0,
  -- The step of the parent that this job belongs to.
  step_number integer not null default 0 check (step_number >= 0),
  -- A plan job's own steps, and what it does when a child fails.
  current_step integer not null default 1 check (current_step >= 1),
  total_steps integer not null default 1,
  on_child_failure text not null default 'all' check (on_child_failure in ('all', 'quorum', 'any')),
  quorum_min integer check (quorum_min >= 1),
  -- More children may still be planned for its current step.
  is_step_open boolean not null default false,
  -- The types of contribution whose arrival lets this plan job plan more.
  awaits text[] not null default '{}',
  -- An awaited input arrived while the job was running: it runs again instead of waiting.
  is_poked boolean not null default false,
  -- The fencing token, incremented at every claim; every write of that attempt compares it.
  attempt_count integer not null default 0 check (attempt_count >= 0),
  retry_count integer not null default 0 check (retry_count >= 0),
  lost_count integer not null default 0 check (lost_count >= 0),
  max_retries integer not null check (max_retries >= 0),
  -- A user has approved a call over the automatic spending limit.
  is_spend_approved boolean not null default false,
  run_at timestamptz not null default dialectic.now(),
  -- The free money that a call needs which waits for money that other calls hold, and its kind.
  awaited_credits dialectic.credits,
  awaits_play_money boolean not null default false,
  -- The amounts behind its status reason, as in an error entry.
  reason_figures jsonb,
  -- Since when a provider has answered every call of this job with a request to slow down.
  throttled_since timestamptz,
  lease_until timestamptz,
  -- When the sweeper first saw that the lease had expired. The worker may still be alive after a
  -- server restart or a clock jump: it has a grace period for a heartbeat before another worker may
  -- claim the job.
  suspect_at timestamptz,
  worker text,
  -- Incremented at every dispatch; with the id it identifies the current message.
  dispatch_count integer not null default 0,
  -- Planned units of its stage that this job's completion finishes; progress is their sum.
  finished_units integer not null default 0 check (finished_units >= 0),
  results jsonb,
  -- Every attempt's error, oldest first.
  error_details jsonb not null default '[]' check (jsonb_typeof(error_details) = 'array'),
  created_at timestamptz not null default dialectic.now(),
  started_at timestamptz,
  completed_at timestamptz,
  -- Written by the job guard when something changes that followers see; a heartbeat is not.
  changed_in xid8 not null default pg_current_xact_id(),
  primary key (tenant_id, id),
  foreign key (tenant_id, session_id) references dialectic_sessions (tenant_id, id) on delete cascade,
  foreign key (tenant_id, parent_job_id)
    references dialectic_generation_jobs (tenant_id, id) on delete cascade,
  foreign key (tenant_id, prerequisite_job_id)
    references dialectic_generation_jobs (tenant_id, id) on delete cascade,
  constraint a_lease_is_held_while_processing
    check ((status = 'processing') = (lease_until is not null and worker is not null)),
  constraint an_ended_job_has_its_time
    check ((status in ('completed', 'failed', 'retry_loop_failed', 'cancelled')) = (completed_at is not null)),
  constraint steps_stay_within_the_recipe check (current_step <= total_steps),
  constraint a_quorum_has_its_number check ((on_child_failure = 'quorum') = (quorum_min is not null)),
  constraint nobody_is_their_own_parent check (parent_job_id <> id),
  constraint a_waiter_has_something_to_wait_for
    check (status <> 'waiting_for_prerequisite' or prerequisite_job_id is not null or status_reason is not null)
) with (fillfactor = 80);
create index jobs_of_a_parent on dialectic_generation_jobs (tenant_id, parent_job_id, step_number);
create index jobs_changed on dialectic_generation_jobs (tenant_id, changed_in);
create index jobs_of_a_session on dialectic_generation_jobs (tenant_id, session_id, created_at);
create index jobs_awaiting on dialectic_generation_jobs (tenant_id, session_id, iteration_number)
  where awaits <> '{}';
create index jobs_waiting_for_another on dialectic_generation_jobs (tenant_id, prerequisite_job_id)
  where prerequisite_job_id is not null;
-- For the sweeper: the rows of all tenants that are neither ended nor paused.
create index jobs_alive on dialectic_generation_jobs (status, run_at)
  where status not in ('completed', 'failed', 'retry_loop_failed', 'cancelled', 'paused');
-- For waking the jobs that wait for money when some is released.
create index jobs_awaiting_money on dialectic_generation_jobs (tenant_id, run_at)
  where awaited_credits is not null;
-- For finding paused jobs of a session or a wallet without reading ended ones.
create index jobs_paused on dialectic_generation_jobs (tenant_id, session_id) where status = 'paused';

-- What a running call does. Python: live_calls.Phase.
create type dialectic_call_phase as enum (
  'preparing',             -- gathers its inputs and makes them fit
  'waiting_for_endpoint',  -- waits for its turn at the provider
  'waiting_for_money',     -- its money is being reserved
  'calling',               -- the request is sent, no text has arrived
  'writing',               -- text arrives
  'saving'                 -- the answer is complete
);

-- The text so far of running calls, for those who watch: one row per call, written by its worker
-- while someone watches its session, and removed by the statement that ends the attempt. Unlogged:
-- a crash of the server empties it, and nothing depends on it.
create unlogged table dialectic_drafts (
  tenant_id uuid not null,
  job_id uuid not null,
  session_id uuid not null,
  -- The fencing token of the attempt; an older attempt or turn never replaces a newer one.
  attempt integer not null check (attempt >= 1),
  turn integer not null check (turn >= 0),
  phase dialectic_call_phase not null,
  text text not null default '',
  -- The length of the text in characters.
  chars integer not null default 0 check (chars >= 0),
  words integer not null default 0 check (words >= 0),
  first_token_at timestamptz,
  updated_at timestamptz not null default dialectic.clock(),
  primary key (tenant_id, job_id),
  foreign key (tenant_id, job_id)
    references dialectic_generation_jobs (tenant_id, id) on delete cascade
) with (fillfactor = 50);
-- Readers take a part of the text; uncompressed, that part is cut out without the rest.
alter table dialectic_drafts alter column text set storage external;
create index drafts_of_a_session on dialectic_drafts (tenant_id, session_id);

-- The sessions whose drafts someone asked for, and until when that counts.
create unlogged table dialectic_draft_watches (
  tenant_id uuid not null,
  session_id uuid not null,
  watched_until timestamptz not null,
  primary key (tenant_id, session_id),
  foreign key (tenant_id, session_id)
    references dialectic_sessions (tenant_id, id) on delete cascade
) with (fillfactor = 50);
