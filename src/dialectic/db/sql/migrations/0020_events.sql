-- Events are kept for a while. The highest number that is gone is remembered, so that a client which
-- has seen less is told so instead of missing something.
alter table notification_counters add column pruned_seq bigint not null default 0;

-- When the last hint at news was given, in milliseconds: a number that all see at once and nobody
-- locks. A crash of the server may forget it.
create unlogged sequence news_hints;

-- Messages to people are few among events that drive views, and are listed by themselves.
create index notifications_to_people on notifications (tenant_id, id) where not is_internal_event;
