-- Processes, their stages and their prompts, as they were when a session pinned them.
--
-- A process is a file; these rows are its copy for queries and export. The content hash is the
-- version: a changed file makes new rows, and running sessions keep the ones they started with.
-- Prompts and overlays are shared between versions that have them in common; link tables say which
-- version uses what.

create table dialectic_domains (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  name text not null check (length(name) between 1 and 200),
  description text not null default '',
  is_enabled boolean not null default true,
  primary key (tenant_id, id),
  unique (tenant_id, name)
);

create table system_prompts (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  name text not null,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  prompt_text text not null,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  unique (tenant_id, name, content_hash)
);

create table dialectic_process_templates (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  name text not null,
  title text not null default '',
  description text not null default '',
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  definition jsonb not null,
  starting_stage_id uuid,
  created_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  unique (tenant_id, name, content_hash)
);

create table dialectic_stages (
  tenant_id uuid not null,
  id uuid not null,
  process_template_id uuid not null,
  slug text not null check (slug ~ '^[a-z0-9][a-z0-9-]{0,63}$'),
  display_name text not null,
  description text not null default '',
  position integer not null check (position >= 1),
  -- The role of the stage's writers.
  default_system_prompt_id uuid not null,
  -- The template of its seed prompt.
  prompt_template_id uuid,
  input_artifact_rules jsonb not null,
  expected_output_artifacts jsonb not null,
  primary key (tenant_id, id),
  foreign key (tenant_id, process_template_id)
    references dialectic_process_templates (tenant_id, id) on delete cascade,
  foreign key (tenant_id, default_system_prompt_id) references system_prompts (tenant_id, id),
  foreign key (tenant_id, prompt_template_id) references system_prompts (tenant_id, id),
  unique (tenant_id, process_template_id, slug),
  unique (tenant_id, process_template_id, position)
);

-- A process names its first stage and a stage its process: the second of the two references comes
-- last.
alter table dialectic_process_templates
  add foreign key (tenant_id, starting_stage_id)
  references dialectic_stages (tenant_id, id) deferrable initially deferred;

create table dialectic_stage_transitions (
  tenant_id uuid not null,
  process_template_id uuid not null,
  source_stage_id uuid not null,
  target_stage_id uuid not null,
  primary key (tenant_id, process_template_id, source_stage_id, target_stage_id),
  foreign key (tenant_id, process_template_id)
    references dialectic_process_templates (tenant_id, id) on delete cascade,
  foreign key (tenant_id, source_stage_id) references dialectic_stages (tenant_id, id) on delete cascade,
  foreign key (tenant_id, target_stage_id) references dialectic_stages (tenant_id, id) on delete cascade,
  constraint a_stage_does_not_follow_itself check (source_stage_id <> target_stage_id)
);

create table dialectic_process_prompts (
  tenant_id uuid not null,
  process_template_id uuid not null,
  system_prompt_id uuid not null,
  primary key (tenant_id, process_template_id, system_prompt_id),
  foreign key (tenant_id, process_template_id)
    references dialectic_process_templates (tenant_id, id) on delete cascade,
  foreign key (tenant_id, system_prompt_id) references system_prompts (tenant_id, id)
);
create index processes_of_a_prompt on dialectic_process_prompts (tenant_id, system_prompt_id);

create table domain_process_associations (
  tenant_id uuid not null,
  domain_id uuid not null,
  process_template_id uuid not null,
  is_default_for_domain boolean not null default false,
  primary key (tenant_id, domain_id, process_template_id),
  foreign key (tenant_id, domain_id) references dialectic_domains (tenant_id, id) on delete cascade,
  foreign key (tenant_id, process_template_id)
    references dialectic_process_templates (tenant_id, id) on delete cascade
);
create unique index one_default_process_per_domain
  on domain_process_associations (tenant_id, domain_id) where is_default_for_domain;

create table domain_specific_prompt_overlays (
  tenant_id uuid not null,
  id uuid not null,
  system_prompt_id uuid not null,
  domain_id uuid not null,
  overlay_values jsonb not null,
  content_hash text not null check (content_hash ~ '^[0-9a-f]{64}$'),
  primary key (tenant_id, id),
  foreign key (tenant_id, system_prompt_id) references system_prompts (tenant_id, id) on delete cascade,
  foreign key (tenant_id, domain_id) references dialectic_domains (tenant_id, id) on delete cascade,
  unique (tenant_id, system_prompt_id, domain_id, content_hash)
);

create table dialectic_process_overlays (
  tenant_id uuid not null,
  process_template_id uuid not null,
  overlay_id uuid not null,
  primary key (tenant_id, process_template_id, overlay_id),
  foreign key (tenant_id, process_template_id)
    references dialectic_process_templates (tenant_id, id) on delete cascade,
  foreign key (tenant_id, overlay_id) references domain_specific_prompt_overlays (tenant_id, id)
);
create index processes_of_an_overlay on dialectic_process_overlays (tenant_id, overlay_id);

-- The models a tenant has used, with the facts that held when they were chosen.
create table ai_providers (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  api_identifier text not null check (api_identifier like '%_/_%'),
  provider text not null,
  config jsonb not null,
  updated_at timestamptz not null default dialectic.now(),
  primary key (tenant_id, id),
  unique (tenant_id, api_identifier)
);
