-- Where this database's documents are: the id of their store, which lies in the store too, and the
-- place where it was last seen, for people. There is one; documents in two stores would be scattered.
create table dialectic_storage (
  is_the_one boolean primary key default true check (is_the_one),
  store_id uuid not null,
  place text not null
);
