-- A pinned process as rows, complete: where it starts, which words it uses, what its domains add.
-- Words are shared between versions that have them in common; the links say which version uses what.

alter table dialectic_process_templates
  add column title text not null default '',
  add column starting_stage_id uuid,
  add foreign key (tenant_id, starting_stage_id)
    references dialectic_stages (tenant_id, id) deferrable initially deferred;

alter table dialectic_stages
  -- The template of the stage's seed prompt; the role of its writers is default_system_prompt_id.
  add column prompt_template_id uuid,
  add foreign key (tenant_id, prompt_template_id) references system_prompts (tenant_id, id);

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
