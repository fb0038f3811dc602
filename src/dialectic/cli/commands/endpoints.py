"""`dialectic endpoint`: your account's own endpoints, with keys that are stored encrypted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from dialectic.cli.backend import Backend, with_backend
from dialectic.cli.terminal import count, echo_json, printable, say
from dialectic.contract.endpoints import EndpointRequest, EndpointTestRequest, OwnEndpoint
from dialectic.core.models.endpoint import WireFormat
from dialectic.errors import UsageError

# The parts of --model, by the fields that they set.
PARTS = {
    "window": "context_window_tokens",
    "output": "max_output_tokens",
    "input": "max_input_tokens",
    "tokenizer": "tokenizer",
}
FLAGS = {
    "reasoning": ("is_reasoning", True),
    "no-system": ("supports_system_prompt", False),
}

_json = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@click.group()
def endpoint() -> None:
    """Your own endpoints: add, list, test, remove.

    Only your account can use them; their models are called @NAME/model. You pay their provider.
    """


@endpoint.command(short_help="Add an endpoint.")
@click.argument("name")
@click.option("--url", required=True, metavar="URL", help="Its address, https://… .")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in WireFormat]),
    default=WireFormat.OPENAI.value,
    show_default=True,
    help="The protocol it speaks.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="M,window=N,output=N",
    help="A model and its limits in tokens; also input=N, tokenizer=T, reasoning, no-system. "
    "May be repeated.",
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="F",
    help="A file with its key; `-` is stdin. Without it a terminal asks.",
)
@click.option("--no-key", is_flag=True, help="It needs no key.")
@click.option("--max-concurrency", type=click.IntRange(1), metavar="N", help="Calls at a time.")
@click.option("--requests-per-minute", type=click.IntRange(1), metavar="N", help="Its rate limit.")
@click.option("--tokens-per-minute", type=click.IntRange(1), metavar="N", help="Its token limit.")
@click.option("--replace", is_flag=True, help="Replace an endpoint of this name and its key.")
@_json
@with_backend
async def add(
    backend: Backend,
    /,
    *,
    name: str,
    url: str,
    models: tuple[str, ...],
    key_file: Path | None,
    no_key: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Add the endpoint NAME to your account."""
    given = {
        **{option: value for option, value in options.items() if value is not None},
        "name": name,
        "base_url": url,
        "models": [read_model(text) for text in models],
        "api_key": None if no_key else read_key(key_file),
    }
    added = await backend.add_endpoint(build_request(given))
    if as_json:
        echo_json(added)
    else:
        say(f"Added. Its {count(len(added.models), 'model')}: {', '.join(added.models)}.")


@endpoint.command("list", short_help="List your endpoints.")
@_json
@with_backend
async def list_endpoints(backend: Backend, *, as_json: bool) -> None:
    """List your account's own endpoints, without their keys."""
    listed = await backend.list_endpoints()
    if as_json:
        echo_json(listed)
        return
    if not listed:
        say("No endpoints of your own. `endpoint add` adds one.")
    for one in listed:
        click.echo(printable(describe(one)))
        if one.problem is not None:
            say(one.problem)


@endpoint.command(short_help="Test an endpoint with a short real call.")
@click.argument("name")
@click.option("--model", metavar="@NAME/M", help="The model; default: the first.")
@_json
@with_backend
async def test(backend: Backend, name: str, *, model: str | None, as_json: bool) -> None:
    """Test the endpoint NAME with a real call of a few tokens, which its provider may charge."""
    tested = await backend.test_endpoint(name, EndpointTestRequest(model=model))
    if as_json:
        echo_json(tested)
        return
    for label, text in (
        ("model", tested.model),
        ("answer", tested.answer or "(no text, only reasoning)"),
        ("finish", tested.finish_reason),
        ("time", f"{tested.elapsed_ms / 1000:.2f} s"),
        ("usage", f"{tested.input_tokens} in, {tested.output_tokens} out, {tested.usage_source}"),
    ):
        click.echo(printable(f"{label:<9} {text}"))


@endpoint.command(short_help="Remove an endpoint and its key.")
@click.argument("name")
@with_backend
async def remove(backend: Backend, name: str) -> None:
    """Remove the endpoint NAME and its key. Jobs that still need it fail."""
    await backend.remove_endpoint(name)
    say(f"Removed {printable(name)}.")


def describe(one: OwnEndpoint) -> str:
    """Describe an endpoint in a line."""
    key = "with a key" if one.has_key else "without a key"
    return f"{one.name}  {one.kind}  {one.base_url}  {key}  {', '.join(one.models)}"


def read_model(text: str) -> dict[str, Any]:
    """Read a --model option: the name, then its limits."""
    name, *parts = text.split(",")
    found: dict[str, Any] = {"name": name}
    for part in parts:
        key, equals, value = part.strip().partition("=")
        if not equals and key in FLAGS:
            field, is_so = FLAGS[key]
            found[field] = is_so
        elif equals and key in PARTS:
            found[PARTS[key]] = int(value) if value.isdecimal() else value
        else:
            raise UsageError(
                f"{part!r} in --model {text!r} is not known. Known: "
                f"{', '.join([*(f'{known}=…' for known in PARTS), *FLAGS])}.",
                reason="bad_model",
                subject="--model",
            )
    return found


def read_key(file: Path | None) -> str:
    """Read a key from a file, from stdin or from a terminal, which does not show it."""
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "No key was given. Name its file with --key-file, or give --no-key.",
                reason="no_key",
                subject="--key-file",
            )
        return str(click.prompt("Key", hide_input=True, err=True)).strip()
    try:
        return sys.stdin.read().strip() if str(file) == "-" else file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(
            f"The key file {file} cannot be read as text. Name another file.",
            reason="unreadable",
            subject="--key-file",
        ) from None


def build_request(given: dict[str, Any]) -> EndpointRequest:
    """Check the options as the API does; never repeat a value, which may be a key."""
    try:
        return EndpointRequest.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{where}: {first['msg']}.", reason="validation_failed", subject=where
        ) from None
