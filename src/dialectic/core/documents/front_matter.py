"""Documents with YAML front matter: fields between two lines of `---`, then the body, untouched.

What `render_document` writes, `split_document` reads back exactly, whatever stands in the fields
or the body. Files written elsewhere are read as well; there a plain word is text unless it is
`true`, `false`, `null` or a whole number, so that `no`, `012` and `1.10` stay what they are.
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

# Far above any real document's fields; the YAML reader is slow, and a stranger's file may be long.
FRONT_MATTER_CHARS_MAX = 65_536

# Most names and values come again and again, and the library takes its time for each.
FIELDS_KEPT_MAX = 1_024
KEPT_CHARS_MAX = 200

_FENCE = "---\n"
_OPENING = re.compile(r"\ufeff?---\r?\n")
_CLOSING = re.compile(r"^---(?:\r?\n|\Z)", re.MULTILINE)
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
# To some reader of YAML or other: 1e3, 0o7, +1, .5, y.
_LOOKS_LIKE_A_VALUE = re.compile(r"[-+.0-9]|[yYnN]\Z")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "": None}


class _Dumper(yaml.CSafeDumper):
    """Quotes what would be read as anything but text, each value on one line."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not text.isprintable():
        # With escapes: folded over several lines, one of them could look like a fence.
        style = '"'
    elif _LOOKS_LIKE_A_VALUE.match(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


class _Loader(yaml.BaseLoader):
    """Takes every value for text, and gives up early on lists within lists."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803
        # No field has them, and a thousand open brackets cost the scanner more than a second.
        if self.flow_level > 1:
            raise ScannerError(problem="nested too deeply", problem_mark=self.get_mark())
        super().fetch_flow_collection_start(TokenClass)


def render_document(fields: Mapping[str, FieldValue], body: str) -> str:
    """Write a document: the fields in the order given, then the body as it is."""
    plain = {str(name): _plain_value(value) for name, value in fields.items()}
    matter = "".join([_render_field(name, value) for name, value in plain.items()])
    _check_size(len(matter))
    return f"{_FENCE}{matter}{_FENCE}{body}"


def split_document(text: str) -> tuple[dict[str, FieldValue], str]:
    """Part a document into its fields and its body; without front matter all of it is body."""
    matter, body = _split_matter(text)
    return ({} if matter is None else _read_matter(matter)), body


def read_body(text: str) -> str:
    """Read a document's body alone, whatever stands in its fields: to read them takes long."""
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
        # Lists by indentation may still be nested until the reader's stack is exhausted.
        root = yaml.compose(matter, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        message = f"The document's front matter is not YAML{where}."
        line = mark.line + 2 if mark is not None else None
        raise UsageError(message, reason="not_yaml", subject=f"line {line}") from error
    return _read_fields(root)


def _render_field(name: str, value: FieldValue) -> str:
    """Write one field, as the library does; none is written otherwise for its neighbours."""
    is_long = isinstance(value, str) and len(value) > KEPT_CHARS_MAX
    if isinstance(value, list) or is_long or len(name) > KEPT_CHARS_MAX:
        return _dump(name, value)
    # Enumerations of numbers are the library's to refuse.
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
    # Enumerations of text and the like are written as the text they are.
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
        # Python refuses to read, and to write, numbers of many thousand digits.
        with contextlib.suppress(ValueError):
            return int(text)
    return text


def _read_text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        message = (
            f"Line {node.start_mark.line + 2} of the document is nested too deeply: "
            "a field of its front matter is one value or a list of texts."
        )
        line = node.start_mark.line + 2
        raise UsageError(message, reason="nested", subject=f"line {line}")
    return str(node.value)


def _check_size(chars: int) -> None:
    if chars > FRONT_MATTER_CHARS_MAX:
        message = (
            f"The document's front matter has {chars} characters; "
            f"{FRONT_MATTER_CHARS_MAX} are allowed."
        )
        raise UsageError(message, reason="too_long", limit=FRONT_MATTER_CHARS_MAX)
