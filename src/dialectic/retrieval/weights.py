"""Files that packages carry for models to run on: found without importing, checked to the bit.

Nothing here touches the network. Knows no model.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from dialectic.errors import ConfigurationError


def load_file(package: str, name: str, sha256: str) -> bytes:
    """Read a file of an installed package; refuse one that is not what was published."""
    path = find_package(package) / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _refuse(package, name, error.strerror or type(error).__name__) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _refuse(package, name, "it is not what was published")
    return data


def find_package(package: str) -> Path:
    """Find the folder of an installed package; its code, which may look for the network, rests."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"The package `{package}` is not installed, so its model cannot run. Install it again, "
            "or choose another one by the setting `embedder`."
        )
    return Path(spec.submodule_search_locations[0])


def _refuse(package: str, name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"The file {name} of the package `{package}` cannot be used: {reason}. Install the package "
        "again."
    )
