-- What every turn writes carries no reference that another one implies: each is looked up and locked
-- at every insert. The project or the session leads to the tenant; a session's news goes to its owner.
alter table dialectic_files drop constraint dialectic_files_tenant_id_fkey;
alter table notifications drop constraint notifications_tenant_id_fkey;
alter table notifications drop constraint notifications_user_id_fkey;
-- Rows without a number are found by the unique index on it.
drop index notifications_without_number;
-- claim_jobs does the work of both.
drop function if exists dialectic.claim_job(uuid, uuid, text, interval, interval, integer);
drop function if exists dialectic.record_lost_lease(dialectic_generation_jobs, integer);
