"""Load processes from disk: those that come with the program, and a user's own. Reads files only.

A process without one of the shared prompts (to continue, merge or shorten a text) gets that of the
standard process. One with `prompts_from` gets the prompts and guidance that its folder lacks from
that shipped process. Both become part of it, so a session keeps them.
"""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import SHARED_PROMPTS, SLUG, Overlay, Process
from dialectic.core.strict_json import Json
from dialectic.core.suggestion import suggest
from dialectic.errors import ConfigurationError, Conflict, InvalidProcess, NotFound, UsageError

FILE_NAME = "process.toml"
STANDARD = "standard"


@dataclass(frozen=True, slots=True)
class Listed:
    """A process with a name: its folder, and the process itself or the error in it."""

    name: str
    folder: Path | None
    found: Process | InvalidProcess


def load_process(name: str, *, own: Path | None = None) -> Process:
    """Load a process by its name, or by the path of its folder or of the file in it.

    The user's `own` folder is searched first, so that a process with the same name that is shipped
    later changes nothing.
    """
    if (found := _find_named(name, own)) is not None:
        return found
    path = Path(name)
    folder = path.parent if path.name == FILE_NAME else path
    if _holds_process(folder):
        return _load_folder(folder, place=str(folder))
    advice = f"For a process without a name, give the folder that holds its {FILE_NAME}."
    raise _build_not_found(name, own, advice)


def load_named(name: str, *, own: Path) -> Process:
    """Load a process by its name only: a remote caller must not name folders of this machine."""
    if (found := _find_named(name, own)) is not None:
        return found
    raise _build_not_found(name, own)


def _build_not_found(name: str, own: Path | None, advice: str = "") -> NotFound:
    mine = _list_names(own) if own is not None else []
    sentences = (
        f"Process {name!r} does not exist.",
        suggest(name, [*mine, *_list_names(_shipped())]),
        f"Shipped: {', '.join(_list_names(_shipped()))}.",
        f"Your own: {', '.join(mine)}." if mine else "",
        advice,
    )
    return NotFound(" ".join(filter(None, sentences)), reason="no_process", subject=name)


def _find_named(name: str, own: Path | None) -> Process | None:
    if re.fullmatch(SLUG, name):
        if own is not None and _holds_process(own / name):
            return _load_own(own / name)
        if _holds_process(_shipped() / name):
            return _load_folder(_shipped() / name, place=name)
    return None


def list_processes(own: Path) -> list[Listed]:
    """List the processes with a name, the user's own first; an invalid one with its error."""
    listed: list[Listed] = []
    for name in _list_names(own):
        try:
            listed.append(Listed(name, own / name, _load_own(own / name)))
        except InvalidProcess as error:
            listed.append(Listed(name, own / name, error))
    taken = {one.name for one in listed}
    shipped = [name for name in _list_names(_shipped()) if name not in taken]
    return listed + [Listed(name, None, load_process(name)) for name in shipped]


def copy_process(source: str, name: str, *, own: Path) -> Path:
    """Copy a process into the user's own folder under another name; return its folder."""
    target = own / name
    if re.fullmatch(SLUG, name) is None:
        raise UsageError(
            f"{name!r} cannot be the name of a process. Use lower-case letters, digits and `-`.",
            reason="bad_name",
            subject=name,
        )
    if target.exists():
        raise Conflict(
            f"{target} exists already. Choose another name, or change the files there.",
            reason="exists",
            subject=str(target),
        )
    load_process(source, own=own)  # raises unless it is a valid process
    begun = _get_folder(source, own)
    texts = {
        FILE_NAME: _rename(begun.joinpath(FILE_NAME).read_text(encoding="utf-8"), name),
        **_read_texts(begun, "prompts", ".md"),
        **_read_texts(begun, "overlays", ".toml"),
    }
    try:
        for path, text in texts.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{target} cannot be written: {error.strerror}. Correct the permissions of {own}.",
            reason="unwritable",
            subject=str(target),
        ) from None
    _load_own(target)
    return target


def _get_folder(source: str, own: Path) -> Traversable:
    places: tuple[Traversable, ...] = (Path(source), Path(source).parent)
    if re.fullmatch(SLUG, source):
        places = (own / source, _shipped() / source, *places)
    return next(place for place in places if _holds_process(place))


def _rename(text: str, name: str) -> str:
    """Give a process file another name; its comments stay."""
    return re.sub(r"(?m)^name\s*=.*$", f'name = "{name}"', text, count=1)


def _read_texts(folder: Traversable, part: str, ending: str) -> dict[str, str]:
    entries = _list_entries(folder.joinpath(part), ending)
    return {f"{part}/{one.name}": one.read_text(encoding="utf-8") for one in entries}


def get_shared_prompt(process: Process, name: str) -> str:
    """Get a shared prompt of a process.

    A process that was pinned before processes had them uses that of the standard process.
    """
    return process.prompts.get(name) or load_shared_prompts()[name]


@functools.cache
def load_shared_prompts() -> dict[str, str]:
    """Load the shared prompts of the standard process."""
    folder = _shipped().joinpath(STANDARD, "prompts")
    return {
        name: folder.joinpath(f"{name}.md").read_text(encoding="utf-8") for name in SHARED_PROMPTS
    }


def _shipped() -> Traversable:
    return files("dialectic").joinpath("processes")


def _holds_process(folder: Traversable) -> bool:
    try:
        return folder.joinpath(FILE_NAME).is_file()
    except OSError:  # the name is too long, or the folder is not readable
        return False


def _list_names(folder: Traversable) -> list[str]:
    try:
        entries = list(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be read: {error.strerror}. Correct its permissions.",
            reason="unreadable",
            subject=str(folder),
        ) from None
    return sorted(entry.name for entry in entries if _holds_process(entry))


def _load_own(folder: Path) -> Process:
    """Load a process that is found by its folder's name; its own name must be the same."""
    process = _load_folder(folder, place=str(folder))
    if process.name != folder.name:
        raise InvalidProcess(
            f"{folder / FILE_NAME}: `name` is {process.name!r}, but the folder is called "
            f"{folder.name!r}. Use the same name for both.",
            reason="other_name",
            subject=str(folder / FILE_NAME),
        )
    return process


def _load_folder(folder: Traversable, *, place: str) -> Process:
    content = _read_toml(folder.joinpath(FILE_NAME), place=f"{place}/{FILE_NAME}")
    lender = _find_lender(content, place=f"{place}/{FILE_NAME}")
    lent = {} if lender is None else _read_prompts(lender, place=lender.name)
    overlays = _list_entries(folder.joinpath("overlays"), ".toml")
    process = build_process(
        content,
        load_shared_prompts() | lent | _read_prompts(folder, place=place),
        [_read_toml(entry, place=f"{place}/overlays/{entry.name}") for entry in overlays],
        place=f"{place}/{FILE_NAME}",
        overlay_places=[f"{place}/overlays/{entry.name}" for entry in overlays],
    )
    return process if lender is None else _lend_guidance(process, lender)


def _read_prompts(folder: Traversable, *, place: str) -> dict[str, str]:
    return {
        entry.name.removesuffix(".md"): _read(entry, place=f"{place}/prompts/{entry.name}")
        for entry in _list_entries(folder.joinpath("prompts"), ".md")
    }


def _find_lender(content: Json, *, place: str) -> Traversable | None:
    """Find the shipped process that lends its prompts; the form of the name is checked later."""
    name = content.get("prompts_from")
    if not isinstance(name, str) or re.fullmatch(SLUG, name) is None:
        return None
    if not _holds_process(_shipped() / name):
        known = ", ".join(_list_names(_shipped()))
        raise InvalidProcess(
            f"{place}: `prompts_from` is {name!r}, which is not shipped. Shipped: {known}.",
            reason="broken_rule",
            subject=place,
        )
    return _shipped() / name


def _lend_guidance(process: Process, lender: Traversable) -> Process:
    """Add the lender's guidance for the prompts and domains that a process has; its own wins."""
    overlays = dict(process.overlays)
    for entry in _list_entries(lender.joinpath("overlays"), ".toml"):
        lent = Overlay.model_validate(_read_toml(entry, place=f"{lender.name}/{entry.name}"))
        guidance = {name: text for name, text in lent.guidance.items() if name in process.prompts}
        if lent.domain in process.file.domains and guidance:
            own = process.overlays.get(lent.domain)
            both = guidance | ({} if own is None else own.guidance)
            overlays[lent.domain] = Overlay(domain=lent.domain, guidance=both)
    return replace(process, overlays=dict(sorted(overlays.items())))


def _list_entries(folder: Traversable, ending: str) -> list[Traversable]:
    """List the files with this ending, by name; a missing folder has none."""
    if not folder.is_dir():
        return []
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return [entry for entry in entries if entry.name.endswith(ending)]


def _read(file: Traversable, *, place: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _build_unreadable(place, str(error), "not_text") from None
    except OSError as error:
        raise _build_unreadable(place, str(error.strerror), "unreadable") from None


def _read_toml(file: Traversable, *, place: str) -> Json:
    try:
        return tomllib.loads(_read(file, place=place))
    except tomllib.TOMLDecodeError as error:
        raise _build_unreadable(place, str(error), "not_toml") from None


def _build_unreadable(place: str, why: str, reason: str) -> InvalidProcess:
    return InvalidProcess(f"{place} cannot be read: {why}.", reason=reason, subject=place)
