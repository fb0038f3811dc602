"""Documents with YAML front matter: fields between two lines of `---`, then the body, untouched.

`split_document` reads back exactly what `render_document` wrote, with any fields and any body. In
files of other programs, a plain word is text unless it is `true`, `false`, `null` or a whole
number, so that `no`, `012` and `1.10` stay text.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import yaml
from yaml.scanner import ScannerError

from dialectic.errors import UsageError

FieldValue: TypeAlias = str | int | bool | list[str] | None

# Far above any real document's fields; PyYAML is slow, and an untrusted file may be long.
FRONT_MATTER_CHARS_MAX = 65_536

# Caches: most names and values repeat, and PyYAML is slow.
FIELDS_KEPT_MAX = 1_024
KEPT_CHARS_MAX = 200

_FENCE = "---\n"
_OPENING = re.compile(r"\ufeff?---\r?\n")
_CLOSING = re.compile(r"^---(?:\r?\n|\Z)", re.MULTILINE)
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
# Some YAML readers take these for numbers or booleans: 1e3, 0o7, +1, .5, y.
_LOOKS_LIKE_A_VALUE = re.compile(r"[-+.0-9]|[yYnN]\Z")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "": None}


class _Dumper(yaml.CSafeDumper):
    """Quotes text that could be read as another type; each value is on one line."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not text.isprintable():
        # Use escapes: one line of a folded text could look like a fence.
        style = '"'
    elif _LOOKS_LIKE_A_VALUE.match(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


class _Loader(yaml.BaseLoader):
    """Reads every value as text, and rejects nested lists early."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803
        # No field has nested lists, and 1,000 open brackets take the scanner more than a second.
        if self.flow_level > 1:
            raise ScannerError(problem="nested too deeply", problem_mark=self.get_mark())
        super().fetch_flow_collection_start(TokenClass)


def render_document(fields: Mapping[str, FieldValue], body: str) -> str:
    """Write a document: the fields in the given order, then the body unchanged."""
    plain = {str(name): _plain_value(value) for name, value in fields.items()}
    matter = "".join([_render_field(name, value) for name, value in plain.items()])
    _check_size(len(matter))
    return f"{_FENCE}{matter}{_FENCE}{body}"


def split_document(text: str) -> tuple[dict[str, FieldValue], str]:
    """Split a document into fields and body; without front matter all of it is body."""
    matter, body = _split_matter(text)
    return ({} if matter is None else _read_matter(matter)), body


def read_body(text: str) -> str:
    """Read only a document's body: parsing the fields is slow."""
    return _split_matter(text)[1]


def _split_matter(text: str) -> tuple[str | None, str]:
    opening = _OPENING.match(text)
    closing = opening and _CLOSING.search(text, opening.end())
    if opening is None or closing is None:
        return None, text
    return text[opening.end() : closing.start()], text[closing.end() :]


def _read_matter(matter: str) -> dict[str, FieldValue]:
    _check_size(len(matter))
    try:
        # Indented lists may still be nested deep enough for a RecursionError.
        root = yaml.compose(matter, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        message = f"The document's front matter is not YAML{where}."
        line = mark.line + 2 if mark is not None else None
        raise UsageError(message, reason="not_yaml", subject=f"line {line}") from error
    return _read_fields(root)


def _render_field(name: str, value: FieldValue) -> str:
    """Write one field exactly as PyYAML does; fields do not affect each other."""
    is_long = isinstance(value, str) and len(value) > KEPT_CHARS_MAX
    if isinstance(value, list) or is_long or len(name) > KEPT_CHARS_MAX:
        return _dump(name, value)
    # An IntEnum goes to PyYAML, which rejects it.
    words = f"{value}\n" if type(value) is int else _dump_value(value)
    return _dump_name(name) + words


@functools.lru_cache(FIELDS_KEPT_MAX)
def _dump_name(name: str) -> str:
    return _dump(name, None).removesuffix("null\n")


@functools.lru_cache(FIELDS_KEPT_MAX, typed=True)
def _dump_value(value: str | int | None) -> str:
    return _dump("a", value).removeprefix("a: ")


def _dump(name: str, value: FieldValue) -> str:
    return yaml.dump(
        {name: value},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=-1,
    )


def _plain_value(value: FieldValue) -> FieldValue:
    # A StrEnum is written as plain text.
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [str(item) for item in value]
    return value


def _read_fields(root: yaml.Node | None) -> dict[str, FieldValue]:
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise UsageError(
            "The document's front matter must be a list of names and values.",
            reason="not_a_mapping",
        )
    fields: dict[str, FieldValue] = {}
    for key, value in root.value:
        name = _read_text(key)
        if name in fields:
            message = f"The document's front matter has the field {name[:80]!r} twice."
            raise UsageError(message, reason="field_twice", subject=name)
        if isinstance(value, yaml.SequenceNode):
            fields[name] = [_read_text(item) for item in value.value]
        else:
            fields[name] = _read_scalar(value)
    return fields


def _read_scalar(node: yaml.Node) -> FieldValue:
    text = _read_text(node)
    if isinstance(node, yaml.ScalarNode) and node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE_NUMBER.fullmatch(text):
        # Python rejects numbers of many thousand digits.
        with contextlib.suppress(ValueError):
            return int(text)
    return text


def _read_text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        message = (
            f"Line {node.start_mark.line + 2} of the document is nested too deeply: "
            "a field of the front matter must be one value or a list of texts."
        )
        line = node.start_mark.line + 2
        raise UsageError(message, reason="nested", subject=f"line {line}")
    return str(node.value)


def _check_size(chars: int) -> None:
    if chars > FRONT_MATTER_CHARS_MAX:
        message = (
            f"The document's front matter has {chars} characters; "
            f"the limit is {FRONT_MATTER_CHARS_MAX}."
        )
        raise UsageError(message, reason="too_long", limit=FRONT_MATTER_CHARS_MAX)
