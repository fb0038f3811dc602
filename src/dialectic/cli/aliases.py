"""Short names that a person gives to models. They live in `aliases.json` of the home.

The command line replaces them before anything else sees them, so they work with every server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from dialectic.atomic_write import replacing
from dialectic.core.models.model import parse_model_list
from dialectic.core.suggestion import suggest
from dialectic.errors import ConfigurationError, NotFound, UsageError

FILE = "aliases.json"
ALIAS = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


def load_aliases(home: Path) -> dict[str, str]:
    """Load the aliases with the models they mean; without a file there are none."""
    place = home / FILE
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{place} cannot be read: {error}. Correct or delete it.",
            reason="unreadable",
            subject=str(place),
        ) from None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise ConfigurationError(
            f"{place} must hold one object with a text for each alias. Correct or delete it.",
            reason="bad_form",
            subject=str(place),
        )
    return found


def set_alias(home: Path, name: str, models: str) -> None:
    """Give one or more models a short name."""
    if ALIAS.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} cannot be an alias. Use lower-case letters, digits, `.`, `_` and `-`, at "
            "most 40, beginning with a letter or a digit.",
            reason="bad_alias",
            subject=name,
        )
    known = load_aliases(home)
    meant = ",".join(parse_model_list(expand(models, known)))
    _save(home, {**known, name: meant})


def remove_alias(home: Path, name: str) -> None:
    """Forget an alias."""
    known = load_aliases(home)
    if name not in known:
        hint = suggest(name, known, f"Known: {', '.join(known)}." if known else "There are none.")
        raise NotFound(f"Alias {name!r} does not exist. {hint}", reason="no_alias", subject=name)
    _save(home, {key: value for key, value in known.items() if key != name})


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace the aliases in a list of models; `fast*3` repeats what `fast` means."""
    return ",".join(_expand_one(part.strip(), known) for part in text.split(","))


def _expand_one(part: str, known: Mapping[str, str]) -> str:
    name, star, times = part.partition("*")
    meant = known.get(name.strip().lower())
    if meant is None:
        return part
    return ",".join(f"{model}{star}{times}" for model in meant.split(","))


def expand_model(text: str, home: Path) -> str:
    """Replace an alias where a single model is wanted."""
    meant = expand(text, load_aliases(home)) if "/" not in text else text
    if "," in meant:
        raise UsageError(
            f"Alias {text!r} means several models: {meant}. Name one of them.",
            reason="several_models",
            subject=text,
        )
    return meant


def _save(home: Path, aliases: Mapping[str, str]) -> None:
    place = home / FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            file.write(json.dumps(dict(sorted(aliases.items())), indent=1).encode())
    except OSError as error:
        raise ConfigurationError(
            f"{place} cannot be written: {error.strerror}. Correct its permissions.",
            reason="unwritable",
            subject=str(place),
        ) from None
