-- Who looks for paused jobs, of a session or of a wallet, finds them without reading all that ended.
create index jobs_paused on dialectic_generation_jobs (tenant_id, session_id) where status = 'paused';
