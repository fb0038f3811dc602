"""`dialectic keys`: store, list and remove the keys of providers; never shows one."""

from __future__ import annotations

import click

from dialectic.cli.key_entry import check_key, get_endpoint, keep_key, read_key
from dialectic.cli.terminal import echo_json, load_settings, printable, say
from dialectic.core.models.endpoint import SECOND_NAMES, Endpoint
from dialectic.errors import NotFound
from dialectic.keys import DOTENV, FILE, KeyPlace, is_private, remove_key
from dialectic.settings import Settings


@click.group()
def keys() -> None:
    """Keys of providers: set, list, remove. No command shows a key."""


@keys.command("set", short_help="Store the key of ENDPOINT.")
@click.argument("endpoint")
@click.option("--in-file", is_flag=True, help="Keep it as plain text in the home.")
@click.option("--no-check", is_flag=True, help="Do not try the key.")
def set_(endpoint: str, *, in_file: bool, no_check: bool) -> None:
    """Store the key of ENDPOINT in the system's keyring; asks for it, or reads standard input."""
    settings = load_settings()
    found = get_endpoint(settings, endpoint)
    key = read_key(found)
    if not no_check:
        check_key(found, key)
    keep_key(settings, found, key, in_file=in_file)
    _tell_precedence(settings, found)


def _tell_precedence(settings: Settings, endpoint: Endpoint) -> None:
    """Say if a key in the environment is used instead of the stored one."""
    for name in _list_names(endpoint):
        place = settings.key_places.get(name)
        if place in (KeyPlace.ENVIRONMENT, KeyPlace.DOTENV):
            say(f"{name} in {_describe_place(settings, place)} is used instead while it is set.")
            return


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def list_(*, as_json: bool) -> None:
    """List the endpoints that take a key, and where each key was found."""
    settings = load_settings()
    rows = []
    for endpoint in settings.list_endpoints().values():
        if endpoint.api_key_env is None:
            continue
        name = settings.find_key_name(endpoint)
        place = None if name is None else settings.key_places[name].value
        rows.append(
            {"endpoint": endpoint.name, "variable": name or endpoint.api_key_env, "place": place}
        )
    if as_json:
        echo_json({"keys": rows})
        return
    width = max(len(str(row["endpoint"])) for row in rows)
    for row in rows:
        place = row["place"]
        where = "no key" if place is None else _describe_place(settings, KeyPlace(place))
        click.echo(printable(f"{row['endpoint']:<{width}}  {row['variable']}: {where}"))
    if not is_private(settings.home):
        say(f"Others can read {settings.home / FILE}. Make it private: chmod 600.")


@keys.command("remove", short_help="Remove the stored key of ENDPOINT.")
@click.argument("endpoint")
def remove(endpoint: str) -> None:
    """Remove the stored key of ENDPOINT from the keyring or the home."""
    settings = load_settings()
    found = get_endpoint(settings, endpoint)
    assert found.api_key_env is not None, "an endpoint without a variable takes no key"
    place = remove_key(settings.home, found.api_key_env)
    if place is None:
        raise NotFound(
            f"No key of {found.name} is stored.", reason="no_key", subject=found.api_key_env
        )
    say(f"Removed the key of {found.name} from {_describe_place(settings, place)}.")
    _tell_precedence(settings, found)


def _list_names(endpoint: Endpoint) -> list[str]:
    second = SECOND_NAMES.get(endpoint.api_key_env or "")
    return [name for name in (endpoint.api_key_env, second) if name]


def _describe_place(settings: Settings, place: KeyPlace) -> str:
    return {
        KeyPlace.ENVIRONMENT: "the environment",
        KeyPlace.DOTENV: f"{DOTENV} in this folder",
        KeyPlace.KEYRING: "the system's keyring",
        KeyPlace.FILE: str(settings.home / FILE),
    }[place]
