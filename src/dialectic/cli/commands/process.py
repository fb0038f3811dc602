"""`dialectic process`: list, show and check processes, and begin one of your own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from dialectic.app.installed import list_processes
from dialectic.cli.backend import open_backend
from dialectic.cli.display.process_graph import (
    Pen,
    build_frame_pen,
    build_plain_pen,
    count_calls,
    draw_process,
)
from dialectic.cli.options import name_command
from dialectic.cli.terminal import (
    WIDTH_MIN,
    count,
    echo_json,
    load_settings,
    printable,
    run_async,
    say,
)
from dialectic.contract.models import ProcessDetail, ProcessSummary
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import (
    Process,
    Stage,
    build_expected_output,
    build_input_rules,
)
from dialectic.core.strict_json import Json
from dialectic.errors import InvalidProcess
from dialectic.pipeline.outline import Outline, build_outline
from dialectic.processes.loader import FILE_NAME, copy_process, load_process
from dialectic.settings import Settings

MODELS_MAX = 32
WIDTH_MAX = 100

models_option = click.option(
    "--models",
    type=click.IntRange(1, MODELS_MAX),
    default=3,
    show_default=True,
    help="How many models to count the calls for.",
)


@click.group()
def process() -> None:
    """Processes: list them, show one with its number of calls, write and check your own."""


@process.command("list", short_help="List the installed processes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def list_(*, as_json: bool) -> None:
    """List the installed processes: the shipped ones and your own."""
    settings = load_settings(knows_server=True)
    own = Path("processes") if settings.server else settings.own_processes
    listed = run_async(_list(settings)) if settings.server else list_processes(own)
    if as_json:
        echo_json({"processes": [_build_json(one, own) for one in listed]})
        return
    for one in listed:
        click.echo(printable("\n".join(_describe_listed(one, own))))
    where = "processes/NAME in the server's home" if settings.server else own / "NAME"
    say(f"Put your own in {where}; see docs/processes.md.")


async def _list(settings: Settings) -> list[ProcessSummary]:
    async with open_backend(settings) as backend:
        return await backend.list_processes()


async def _load(settings: Settings, name: str) -> ProcessDetail:
    async with open_backend(settings) as backend:
        return await backend.load_process(name)


def _parse(detail: ProcessDetail) -> Process:
    """Build a process from its definition."""
    written = detail.definition
    overlays = list(written["overlays"].values())
    return build_process(written["file"], written["prompts"], overlays, place=detail.name)


def _describe_listed(one: ProcessSummary, own: Path) -> list[str]:
    where = "shipped" if one.is_shipped else str(own / one.name)
    if not isinstance(one, ProcessDetail):
        return [f"{one.name}: broken", f"    {one.problem}", f"    {where}"]
    calls = count_calls(build_outline(_parse(one), models=3))
    return [
        f"{one.name}: {one.title}",
        f"    {' > '.join(one.stages)}",
        f"    {calls} for 3 models; {where}",
    ]


def _build_json(one: ProcessSummary, own: Path) -> dict[str, object]:
    folder = None if one.is_shipped else str(own / one.name)
    row: dict[str, object] = {"name": one.name, "is_shipped": one.is_shipped, "folder": folder}
    if not isinstance(one, ProcessDetail):
        return row | {"error": {"code": InvalidProcess.code, "message": one.problem}}
    return row | one.model_dump(include={"title", "content_hash", "stages"})


@process.command()
@click.argument("name", default="standard")
@models_option
@click.option("--prompts", is_flag=True, help="Include the full prompts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def show(name: str, *, models: int, prompts: bool, as_json: bool) -> None:
    """Draw a process, given by NAME or folder, with its number of calls."""
    settings = load_settings(knows_server=True)
    shown = (
        _parse(run_async(_load(settings, name)))
        if settings.server
        else load_process(name, own=settings.own_processes)
    )
    outline = build_outline(shown, models=models)
    if as_json:
        echo_json(describe_process(shown, outline, with_prompts=prompts))
        return
    for line in draw_process(shown, outline, _choose_pen()):
        click.echo(printable(line))
    if prompts:
        _show_prompts(shown)


def _choose_pen() -> Pen:
    """Use box-drawing characters if the output supports them, else ASCII."""
    if not sys.stdout.isatty():
        return build_plain_pen()
    width = max(WIDTH_MIN, min(shutil.get_terminal_size().columns, WIDTH_MAX))
    can_frame = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return build_frame_pen(width) if can_frame else build_plain_pen(width)


def _show_prompts(shown: Process) -> None:
    for prompt_name, text in shown.prompts.items():
        click.echo(f"\n=== prompts/{prompt_name}.md\n\n{printable(text.rstrip())}")
        for overlay in shown.overlays.values():
            if guidance := overlay.guidance.get(prompt_name):
                click.echo(printable(f"\n--- guidance in {overlay.domain}: {guidance}"))


def describe_process(shown: Process, outline: Outline, *, with_prompts: bool) -> Json:
    """Build the JSON description of a process."""
    described: Json = {
        "name": shown.name,
        "title": shown.file.title,
        "description": shown.file.description,
        "content_hash": shown.content_hash,
        "domains": list(shown.file.domains),
        "seats": [angle.model_dump(mode="json") for angle in shown.file.seats],
        "angles": shown.file.angles.value,
        "seats_min": shown.file.seats_min,
        "models": outline.models,
        "calls": outline.calls,
        "stages": [_describe_stage(stage, outline) for stage in shown.order],
    }
    if with_prompts:
        described["prompts"] = shown.prompts
        described["overlays"] = {o.domain: o.guidance for o in shown.overlays.values()}
    return described


def _describe_stage(stage: Stage, outline: Outline) -> Json:
    figures = [step for step in outline.steps if step.stage_slug == stage.slug]
    rules = build_input_rules(stage)
    for step, figure in zip(rules.get("steps", ()), figures, strict=False):
        step["calls_per_model"], step["calls"] = figure.per_model, figure.calls
    return {
        "slug": stage.slug,
        "display_name": stage.display_name,
        "description": stage.description,
        "system_prompt_name": stage.system_prompt_name,
        "calls": sum(figure.calls for figure in figures),
        "input_artifact_rules": rules,
        "expected_output_artifacts": build_expected_output(stage),
    }


@process.command(short_help="Begin a process of your own, as a copy of another.")
@click.argument("name")
@click.option(
    "--from",
    "source",
    default="digest",
    show_default=True,
    metavar="P",
    help="The process to copy, by name or folder.",
)
def new(name: str, *, source: str) -> None:
    """Begin a process of your own called NAME, as a copy that you then change."""
    folder = copy_process(source, name, own=load_settings().own_processes)
    click.echo(printable(str(folder / FILE_NAME)))
    say(f"Change it and its prompts/. `{name_command(f'process check {name}')}` checks it, ")
    say(f'`{name_command(f"""run "…" --process {name}""")}` runs it. See docs/processes.md.')


@process.command(short_help="Check a process of your own.")
@click.argument("place", metavar="FILE-OR-FOLDER")
@models_option
def check(place: str, *, models: int) -> None:
    """Check a process file (or its folder), with its prompts and overlays."""
    checked = load_process(place, own=load_settings().own_processes)
    for label, number, detail in _count_parts(checked, build_outline(checked, models=models)):
        click.echo(printable(f"{label:<12}{number:>5,}  {detail}".rstrip()))
    click.echo(f"ok: {checked.name} {checked.content_hash[:12]}")


def _count_parts(checked: Process, outline: Outline) -> list[tuple[str, int, str]]:
    steps = [step.name for stage in checked.order for step in stage.steps]
    documents = [d.key for stage in checked.order for d in stage.expected_output_artifacts]
    inputs = sum(
        len(stage.inputs_required) + sum(len(step.inputs_required) for step in stage.steps)
        for stage in checked.order
    )
    return [
        ("stages", len(checked.order), " > ".join(stage.slug for stage in checked.order)),
        ("steps", len(steps), ", ".join(steps)),
        ("inputs", inputs, "each is produced before it is read"),
        ("prompts", len(checked.prompts), "each exists and gets every variable it uses"),
        ("documents", len(documents), ", ".join(documents)),
        ("domains", len(checked.file.domains), ", ".join(checked.file.domains)),
        ("overlays", len(checked.overlays), ", ".join(checked.overlays)),
        ("calls", outline.calls, f"for {count(outline.models, 'model')}"),
    ]
