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
-- The current thread, without rewound messages.
select id, role, content, model_name, token_usage, finish_reason, is_incomplete, flags, created_at
from chat_messages
where chat_id = $1 and is_active_in_thread
order by position

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
   is_incomplete, flags, response_to_message_id)
values
  ($1, $2, $3, $4, 'user', $5, null, null, null, false, '{}', null),
  ($1, $6, $3, null, 'assistant', $7, $8, $9, $10, $11, $12, $2)
on conflict (tenant_id, id) do nothing
