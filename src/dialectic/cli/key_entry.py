"""Takes a provider's key from a person: reads it unseen, tries it, and asks where to keep it."""

from __future__ import annotations

import difflib
import sys

from dialectic.cli.terminal import confirm, has_person, prompt, run_async, say
from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.errors import DialecticError, ProviderAuth, UsageError
from dialectic.keys import FILE, KeyPlace, has_keyring, store_key
from dialectic.providers.catalog import open_provider
from dialectic.settings import Settings

KEY_CHARS_MAX = 10_000


def get_endpoint(settings: Settings, name: str) -> Endpoint:
    """Find the endpoint that a person named, which must take a key."""
    known = {one.name: one for one in settings.list_endpoints().values() if one.api_key_env}
    if (found := known.get(name.strip().lower())) is not None:
        return found
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(known)}."
    raise UsageError(
        f"No endpoint {name!r} takes a key. {hint}", reason="no_endpoint", subject=name
    )


def read_key(endpoint: Endpoint) -> Secret:
    """Read a key: unseen from a terminal, else one line of standard input."""
    if has_person():
        text = prompt(f"Key for {endpoint.name} (not shown)", hidden=True)
    else:
        text = sys.stdin.read(KEY_CHARS_MAX + 1)
    key = text.strip()
    if not key or len(key) > KEY_CHARS_MAX or len(key.split()) > 1:
        raise UsageError(
            "That is not a key: a key is one word. Give it at a terminal, or alone on standard "
            "input.",
            reason="not_a_key",
            subject=endpoint.name,
        )
    return Secret(key)


def check_key(endpoint: Endpoint, key: Secret) -> None:
    """Try a key without cost: let the endpoint list its models; raise if it rejects the key."""

    async def list_models() -> int:
        provider = open_provider(endpoint, key)
        try:
            return len(await provider.list_models())
        finally:
            await provider.close()

    try:
        listed = run_async(list_models())
    except ProviderAuth as error:
        raise ProviderAuth(
            f"{error.message} The key was not stored.",
            reason="key_refused",
            subject=endpoint.name,
        ) from None
    except DialecticError as error:
        say(f"The key could not be tried: {error.message}")
    else:
        say(f"{endpoint.name} accepts the key and lists {listed:,} models.")


def keep_key(settings: Settings, endpoint: Endpoint, key: Secret, *, in_file: bool) -> KeyPlace:
    """Store a key in the keyring, or, if the person agrees, as plain text in the home."""
    assert endpoint.api_key_env is not None, "an endpoint without a variable takes no key"
    place = KeyPlace.FILE if in_file else KeyPlace.KEYRING
    if not in_file and not has_keyring():
        _ask_for_consent(settings)
        place = KeyPlace.FILE
    store_key(settings.home, endpoint.api_key_env, key, place)
    where = settings.home / FILE if place is KeyPlace.FILE else "the system's keyring"
    say(f"Stored the key of {endpoint.name} in {where}.")
    return place


def _ask_for_consent(settings: Settings) -> None:
    path = settings.home / FILE
    why = "No protected keyring was found (`pip install dialectic-engine[keyring]` adds support)."
    if not has_person():
        raise UsageError(
            f"{why} Add --in-file to keep the key as plain text in {path}, or set the environment "
            "variable instead.",
            reason="no_consent",
            subject="--in-file",
        )
    question = f"{why} Keep the key as plain text in {path}, which only you can read?"
    if not confirm(question):
        raise UsageError(
            "The key was not stored. An environment variable or a `.env` file can hold it instead.",
            reason="no_consent",
            subject=str(path),
        )
