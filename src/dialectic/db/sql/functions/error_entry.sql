-- One entry of a job's list of errors, with the provider's response, the remedy and the
-- amounts of a lack of money, if any.
create or replace function dialectic.error_entry(
  p_attempt integer, p_code text, p_message text, p_raw jsonb default null,
  p_remedy jsonb default null, p_figures jsonb default null
) returns jsonb
language sql stable
as $$
  select jsonb_build_array(
    jsonb_build_object(
      'attempt', p_attempt, 'code', p_code, 'message', p_message, 'at', dialectic.now())
    || case when p_raw is null then '{}'::jsonb else jsonb_build_object('raw', p_raw) end
    || case when p_remedy is null then '{}'::jsonb else jsonb_build_object('remedy', p_remedy) end
    || case when p_figures is null then '{}'::jsonb
      else jsonb_build_object('figures', p_figures) end)
$$;
