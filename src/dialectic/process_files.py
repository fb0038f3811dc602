"""Processes on disk: those that come with the program and those a user writes. Reads files only."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dialectic.domain.process import Process, build_process
from dialectic.errors import InvalidProcess, NotFound

FILE_NAME = "process.toml"


def load_process(name: str) -> Process:
    """Load a process by the name of a shipped one, or by the path of a folder or its file."""
    shipped = files("dialectic").joinpath("processes")
    if "/" not in name and shipped.joinpath(name, FILE_NAME).is_file():
        return _load_folder(shipped.joinpath(name), place=f"{name}/{FILE_NAME}")
    path = Path(name)
    folder = path.parent if path.name == FILE_NAME else path
    if (folder / FILE_NAME).is_file():
        return _load_folder(folder, place=str(folder / FILE_NAME))
    known = ", ".join(
        sorted(entry.name for entry in shipped.iterdir() if entry.joinpath(FILE_NAME).is_file())
    )
    raise NotFound(
        f"There is no process {name!r}. Shipped are: {known}. "
        f"For one of your own give the folder that holds its {FILE_NAME}."
    )


def _load_folder(folder: Traversable, *, place: str) -> Process:
    try:
        content = tomllib.loads(folder.joinpath(FILE_NAME).read_text(encoding="utf-8"))
        prompts = {
            entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
            for entry in folder.joinpath("prompts").iterdir()
            if entry.name.endswith(".md")
        }
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidProcess(f"{place} cannot be read: {error}.") from None
    except OSError as error:
        raise InvalidProcess(f"{place}: {error.filename}: {error.strerror}.") from None
    return build_process(content, prompts, place=place)
