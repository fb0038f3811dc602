"""A pinned process as rows: complete, once per content, each tenant for itself."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

import dialectic
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.db.pool import Connection
from dialectic.db.tables import records
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.processes.loader import load_process

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
SHIPPED = Path(dialectic.__file__).parent / "processes" / "standard"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pros-and-cons"
MIRROR = (
    "dialectic_process_templates",
    "dialectic_stages",
    "dialectic_stage_transitions",
    "system_prompts",
    "dialectic_process_prompts",
    "dialectic_domains",
    "domain_process_associations",
    "domain_specific_prompt_overlays",
    "dialectic_process_overlays",
)


def pin(engine: Engine, account: Account, process: Process) -> Awaitable[UUID]:
    async def work(connection: Connection) -> UUID:
        return await records.pin_process(connection, account.tenant_id, process)

    return engine.db.transact(account.tenant_id, work)


async def count_rows(admin: Admin) -> dict[str, int]:
    return {table: await admin.fetchval(f"select count(*) from {table}") for table in MIRROR}


async def fetch_column(admin: Admin, query: str, *arguments: Any) -> list[Any]:
    return [row[0] for row in await admin.fetch(query, *arguments)]


async def load_rules(admin: Admin, slug: str) -> tuple[dict[str, Any], dict[str, Any]]:
    row = await admin.fetchrow(
        "select input_artifact_rules as rules, expected_output_artifacts as expected"
        " from dialectic_stages where slug = $1",
        slug,
    )
    assert row is not None
    return json.loads(row["rules"]), json.loads(row["expected"])


def build_changed(tmp_path: Path, file: str, old: str, new: str) -> Process:
    """The standard process with one change of words in one of its files."""
    folder = shutil.copytree(SHIPPED, tmp_path / "changed", dirs_exist_ok=True)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    return load_process(str(folder))


async def test_the_rows_tell_the_order_of_the_stages_from_the_start_on(
    engine: Engine, account: Account, admin: Admin
) -> None:
    process_id = await pin(engine, account, load_process("standard"))
    walked = await fetch_column(
        admin,
        """
        with recursive walk as (
          select s.id, s.slug, 1 as nth
          from dialectic_process_templates t
          join dialectic_stages s on s.id = t.starting_stage_id
          where t.id = $1
          union all
          select s.id, s.slug, w.nth + 1
          from walk w
          join dialectic_stage_transitions a on a.source_stage_id = w.id
          join dialectic_stages s on s.id = a.target_stage_id)
        select slug from walk order by nth
        """,
        process_id,
    )
    assert walked == ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]
    title = await admin.fetchval("select title from dialectic_process_templates")
    assert title == "Standard dialectic"


async def test_a_stage_with_steps_holds_its_recipe_under_the_keys_of_the_process_file(
    engine: Engine, account: Account, admin: Admin
) -> None:
    await pin(engine, account, load_process("standard"))
    rules, expected = await load_rules(admin, "synthesis")
    assert rules["prompt_template_name"] == "synthesis"
    assert rules["processing_strategy"] == {"type": "task_isolation"}
    assert [source["type"] for source in rules["sources"]] == [
        "thesis",
        "antithesis",
        "feedback",
        "feedback",
    ]
    assert [step["step"] for step in rules["steps"]] == [1, 2, 3]
    assert rules["steps"][1] == {
        "step": 2,
        "name": "per_thesis",
        "description": "All improved proposals that descend from one thesis become one.",
        "progress_label": "Reducing per-thesis results",
        "prompt_template_name": "synthesis_reduce",
        "granularity_strategy": "per_source_group",
        "output_type": "reduced_synthesis",
        "is_intermediate": True,
        "on_child_failure": "all",
        "quorum_min": None,
        "overflow": "compress",
        "compressor": "extract",
        "readers_max": None,
        "per_source_max": None,
        "length": {"words_min": 1500, "share_of_input": 0.45, "words_max": 8000},
        "second_look": False,
        "expected_output_tokens": None,
        "inputs_required": [
            {
                "type": "pairwise_synthesis_chunk",
                "stage_slug": "synthesis",
                "scope": "own",
                "required": True,
                "header": "Improved proposal",
            }
        ],
    }
    assert expected["output_type"] == "synthesis"
    assert expected["documents"][0] == {
        "key": "product_requirements",
        "title": "Product requirements",
        "heading": "## Product requirements",
        "synonyms": ["Product requirements document", "PRD", "Product specification"],
        "fills_pending": False,
    }


async def test_a_stage_without_steps_holds_its_sources_only(
    engine: Engine, account: Account, admin: Admin
) -> None:
    await pin(engine, account, load_process("standard"))
    rules, expected = await load_rules(admin, "parenthesis")
    assert set(rules) == {"prompt_template_name", "makers", "sources"}
    assert [document["key"] for document in expected["documents"]] == [
        "technical_requirements",
        "master_plan",
        "milestones",
    ]


async def test_each_stage_and_step_leads_to_the_words_of_this_version(
    engine: Engine, account: Account, admin: Admin, tmp_path: Path
) -> None:
    process = load_process("standard")
    process_id = await pin(engine, account, process)
    changed = build_changed(tmp_path, "prompts/synthesis_final.md", "# Task", "# The task")
    await pin(engine, account, changed)
    stages = await admin.fetch(
        """
        select s.slug, role.prompt_text as role, template.prompt_text as template
        from dialectic_stages s
        join system_prompts role on role.id = s.default_system_prompt_id
        join system_prompts template on template.id = s.prompt_template_id
        where s.process_template_id = $1 order by s.position
        """,
        process_id,
    )
    assert [tuple(row) for row in stages] == [
        (
            stage.slug,
            process.prompts[stage.system_prompt_name],
            process.prompts[stage.prompt_template_name],
        )
        for stage in process.order
    ]
    steps = await admin.fetch(
        """
        select step ->> 'name' as name, p.prompt_text
        from dialectic_stages s
        cross join jsonb_array_elements(s.input_artifact_rules -> 'steps') as step
        join dialectic_process_prompts used using (tenant_id, process_template_id)
        join system_prompts p
          on p.id = used.system_prompt_id and p.name = step ->> 'prompt_template_name'
        where s.process_template_id = $1
        """,
        process_id,
    )
    assert {tuple(row) for row in steps} == {
        (step.name, process.prompts[step.prompt_template_name])
        for stage in process.order
        for step in stage.steps
    }


async def test_domains_and_what_they_add_to_each_prompt_are_rows(
    engine: Engine, account: Account, admin: Admin
) -> None:
    process = load_process("standard")
    process_id = await pin(engine, account, process)
    domains = await fetch_column(
        admin,
        """
        select d.name from domain_process_associations a
        join dialectic_domains d on d.id = a.domain_id
        where a.process_template_id = $1 order by d.name
        """,
        process_id,
    )
    assert domains == sorted(process.file.domains)
    overlays = await admin.fetch(
        """
        select d.name as domain, p.name as prompt, o.overlay_values ->> 'guidance' as guidance
        from dialectic_process_overlays used
        join domain_specific_prompt_overlays o on o.id = used.overlay_id
        join dialectic_domains d on d.id = o.domain_id
        join system_prompts p on p.id = o.system_prompt_id
        where used.process_template_id = $1
        """,
        process_id,
    )
    assert {tuple(row) for row in overlays} == {
        (overlay.domain, prompt, guidance)
        for overlay in process.overlays.values()
        for prompt, guidance in overlay.guidance.items()
    }


async def test_pinning_again_adds_no_row(engine: Engine, account: Account, admin: Admin) -> None:
    first = await pin(engine, account, load_process("standard"))
    before = await count_rows(admin)
    assert all(before.values()), before
    assert await pin(engine, account, load_process("standard")) == first
    assert await count_rows(admin) == before


async def test_eight_who_pin_two_processes_at_once_leave_each_of_them_once(
    engine: Engine, account: Account, admin: Admin
) -> None:
    both = [load_process("standard"), load_process(str(EXAMPLE))]
    ids = await asyncio.gather(*(pin(engine, account, both[n % 2]) for n in range(8)))
    assert len(set(ids)) == 2
    counts = await count_rows(admin)
    assert counts["dialectic_process_templates"] == 2
    assert counts["dialectic_stages"] == sum(len(process.order) for process in both)


async def test_a_changed_overlay_makes_a_new_version_that_shares_everything_else(
    engine: Engine, account: Account, admin: Admin, tmp_path: Path
) -> None:
    await pin(engine, account, load_process("standard"))
    before = await count_rows(admin)
    file = "overlays/software-development.toml"
    changed = build_changed(tmp_path, file, "Write steps test first", "Write each step test first")
    process_id = await pin(engine, account, changed)
    after = await count_rows(admin)
    assert after["dialectic_process_templates"] == 2
    assert after["system_prompts"] == before["system_prompts"]
    assert after["dialectic_domains"] == before["dialectic_domains"]
    added = "domain_specific_prompt_overlays"
    assert after[added] == before[added] + 1
    used = await admin.fetchval(
        "select count(*) from dialectic_process_overlays where process_template_id = $1", process_id
    )
    assert used == before["dialectic_process_overlays"]


async def test_what_is_pinned_can_be_built_again_with_its_overlays(
    engine: Engine, account: Account
) -> None:
    process = load_process("standard")
    process_id = await pin(engine, account, process)

    async def load(connection: Connection) -> Any:
        return await connection.fetchval(records.SQL["load_process"], process_id)

    kept = await engine.db.transact(account.tenant_id, load)
    again = build_process(
        kept["file"], kept["prompts"], list(kept["overlays"].values()), place="pinned"
    )
    assert again == process
    assert again.content_hash == process.content_hash


async def test_two_tenants_pin_the_same_process_each_for_themselves(
    engine: Engine, account: Account, admin: Admin
) -> None:
    other = await open_account(engine.db, "other")
    process = load_process("standard")
    assert await pin(engine, account, process) != await pin(engine, other, process)
    for table in MIRROR:
        tenants = await fetch_column(
            admin, f"select count(*) from {table} group by tenant_id order by tenant_id"
        )
        assert len(tenants) == 2, table
        assert len(set(tenants)) == 1, table
