-- What a person has allowed a job to spend: more than one call may cost unasked.
alter table dialectic_generation_jobs add column is_spend_approved boolean not null default false;
