-- What recovery needs to know: which files were tried in vain, and since when a job is throttled.

alter table dialectic_files
  -- When someone last tried to write it who was not the one that made it.
  add column tried_at timestamptz;
drop index files_waiting;
create index files_waiting on dialectic_files (tried_at nulls first, created_at)
  where written_at is null;

alter table dialectic_generation_jobs
  -- Since when every call of this job was met by a provider that asked for patience.
  add column throttled_since timestamptz;

-- Nothing makes this move: a job that took down too many workers ends while it is being processed.
delete from dialectic_job_moves where from_status = 'pending' and to_status = 'retry_loop_failed';
