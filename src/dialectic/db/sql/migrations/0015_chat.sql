-- Chats: an exchange is a question and its answer, written in one commit. Messages are read in the
-- order in which they were said, which the clock alone does not tell within one commit.
alter table chat_messages
  add column position bigint generated always as identity,
  add column model_name text,
  add column finish_reason text check (finish_reason in ('stop', 'length', 'tool', 'filter', 'error')),
  add column is_incomplete boolean not null default false,
  add column flags text[] not null default '{}',
  add constraint an_answer_says_whose_it_is check ((role = 'assistant') = (model_name is not null));
drop index messages_of_a_chat;
create index messages_of_a_chat on chat_messages (tenant_id, chat_id, position);
