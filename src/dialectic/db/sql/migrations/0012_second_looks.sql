-- A second look at a finished document is a call with a purpose of its own.
alter domain dialectic.hold_purpose drop constraint hold_purpose_check;
alter domain dialectic.hold_purpose add constraint hold_purpose_check
  check (value in ('call', 'embedding', 'compression', 'chat', 'trial', 'look'));
