-- One entry in a job's list of errors.
create or replace function dialectic.error_entry(p_attempt integer, p_code text, p_message text)
returns jsonb
language sql stable
as $$
  select jsonb_build_array(jsonb_build_object(
    'attempt', p_attempt, 'code', p_code, 'message', p_message, 'at', dialectic.now()))
$$;
