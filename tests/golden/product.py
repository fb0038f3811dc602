"""Where the goldens find the product. No other module here names one of its modules."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.resources import files
from importlib.resources.abc import Traversable

import click

import dialectic
from dialectic.cli.main import cli
from dialectic.errors import DialecticError

COMMAND: click.Command = cli
# What `python` is given to print the description of the API.
PRINT_DESCRIPTION = ("-m", "dialectic.api.app")
SQL: Traversable = files("dialectic.db.sql")


def list_errors() -> list[type[DialecticError]]:
    """List every class of the tree of errors, wherever in the package it is defined."""
    package = dialectic.__name__
    for module in pkgutil.walk_packages(dialectic.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: list[type[DialecticError]] = []
    left: list[type[DialecticError]] = [DialecticError]
    while left:
        error = left.pop()
        found.append(error)
        left += [one for one in error.__subclasses__() if one.__module__.startswith(package)]
    return found
