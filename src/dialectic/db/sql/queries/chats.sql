-- Statements of db/tables/chats.py: chats and their messages.

-- name: load_chat
select id, title, system_prompt as system, created_at from chats where id = $1

-- name: lock_chat
select id from chats where id = $1 for key share

-- name: find_chat_ids
select id from chats where starts_with(replace(id::text, '-', ''), $1) limit 5

-- name: list_chats
select c.id, c.title, c.created_at, count(m.*)::int as messages, max(m.created_at) as last_at
from chats c
left join chat_messages m on m.tenant_id = c.tenant_id and m.chat_id = c.id and m.is_active_in_thread
group by c.tenant_id, c.id
order by max(m.created_at) desc nulls last, c.id
limit $1

-- name: list_messages
-- The current thread, without rewound messages; or only those ($2).
select id, previous_message_id, role, content, model_name, token_usage, finish_reason, is_incomplete,
  flags, created_at
from chat_messages
where chat_id = $1 and is_active_in_thread <> $2
order by position

-- name: switch_branch
-- Make the thread of a message ($2) the current one: all before it, and after it the newest of each.
with recursive before (id, previous_id) as (
  select m.id, m.previous_message_id from chat_messages m where m.chat_id = $1 and m.id = $2
  union all
  select m.id, m.previous_message_id
  from before b join chat_messages m on m.chat_id = $1 and m.id = b.previous_id
), after (id) as (
  select b.id from before b where b.id = $2
  union all
  select (
    select m.id from chat_messages m
    where m.chat_id = $1 and m.previous_message_id = a.id
    order by m.position desc limit 1)
  from after a
  where a.id is not null
), thread as (
  select id from before union select id from after where id is not null
)
update chat_messages m
set is_active_in_thread = m.id in (select id from thread)
where m.chat_id = $1 and exists (select from before)
returning m.id

-- name: find_message
select id, chat_id, role, content, model_name, token_usage, finish_reason, is_incomplete, flags,
  is_active_in_thread, created_at
from chat_messages
where id = $1

-- name: rewind
-- The message and all later ones; no row if it is not part of the thread.
update chat_messages
set is_active_in_thread = false
where chat_id = $1 and is_active_in_thread and position >= (
  select m.position from chat_messages m
  where m.id = $2 and m.chat_id = $1 and m.is_active_in_thread)
returning id

-- name: rename_chat
update chats set title = $2 where id = $1

-- name: delete_chat
delete from chats where id = $1

-- name: load_system_prompt
select prompt_text from system_prompts where id = $1

-- name: insert_chat
-- The first exchange creates the chat; a concurrent second exchange joins it.
insert into chats (tenant_id, id, user_id, title, system_prompt)
values ($1, $2, $3, $4, $5)
on conflict (tenant_id, id) do nothing

-- name: insert_exchange
-- Idempotent: a retry after a lost commit response finds the existing rows.
insert into chat_messages
  (tenant_id, id, chat_id, user_id, role, content, model_name, token_usage, finish_reason,
   is_incomplete, flags, response_to_message_id, previous_message_id)
values
  ($1, $2, $3, $4, 'user', $5, null, null, null, false, '{}', null, (
    select m.id from chat_messages m where m.chat_id = $3 and m.is_active_in_thread
    order by m.position desc limit 1)),
  ($1, $6, $3, null, 'assistant', $7, $8, $9, $10, $11, $12, $2, $2)
on conflict (tenant_id, id) do nothing
