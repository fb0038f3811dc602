"""Writes the API's types for editors and for `tsc`, from its OpenAPI document.

The document is JSON Schema 2020-12 as pydantic writes it; a keyword that changes what a value may
be and is not known here is an error, not `unknown`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

PLACE = Path(__file__).parent.parent / "src/dialectic/web/static/api.d.ts"
REFERENCE = "#/components/schemas/"
HEAD = (
    "// The requests, responses and events of the API. Written by `make openapi-types` from the\n"
    "// OpenAPI document; a test compares. For editors and `tsc`: no server sends this file.\n"
)
SIMPLE = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
# What limits or explains a value, and does not change its type.
SILENT = {
    *("title", "description", "default", "examples", "format", "pattern", "discriminator"),
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "propertyNames", "required"),
    *("readOnly", "writeOnly", "deprecated", "contentMediaType", "contentEncoding", "uniqueItems"),
    "multipleOf",
}
SPOKEN = {
    *("$ref", "anyOf", "oneOf", "allOf", "enum", "const", "type", "items", "prefixItems"),
    *("properties", "additionalProperties", "patternProperties"),
}
WIDTH_MAX = 100


def write_types(description: Schema) -> str:
    """Write one exported type for each schema, by name."""
    schemas: Mapping[str, Schema] = description["components"]["schemas"]
    return "\n".join([HEAD, *(_declare(name, schemas[name]) for name in sorted(schemas))])


def _declare(name: str, schema: Schema) -> str:
    comment = "".join(_comment(schema, ""))
    if schema.get("properties"):
        return f"{comment}export interface {name} {_write_object(schema, '')}\n"
    return f"{comment}export type {name} = {_break(_write(schema, ''))};\n"


def _comment(schema: Schema, indent: str) -> Iterator[str]:
    text = schema.get("description")
    if text:
        lines = [line.strip().replace("*/", "* /") for line in text.strip().splitlines()]
        if len(lines) == 1:
            yield f"{indent}/** {lines[0]} */\n"
        else:
            yield f"{indent}/**\n"
            yield from (f"{indent} * {line}".rstrip() + "\n" for line in lines)
            yield f"{indent} */\n"


def _write(schema: Schema, indent: str) -> str:
    if unknown := set(schema) - SILENT - SPOKEN:
        raise SystemExit(f"{sorted(unknown)} is not known to tools/openapi_types.py: {schema}")
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REFERENCE)
    if values := schema.get("enum", [schema["const"]] if "const" in schema else None):
        return " | ".join(map(json.dumps, values))
    for keyword, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if keyword in schema:
            return sign.join(dict.fromkeys(_write(one, indent) for one in schema[keyword]))
    return _write_kind(schema, indent)


def _write_kind(schema: Schema, indent: str) -> str:
    kinds = schema.get("type")
    if kinds is None:
        return "unknown"
    if kinds == "array":
        return _write_array(schema, indent)
    if kinds == "object":
        return _write_object(schema, indent)
    return " | ".join(SIMPLE[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _write_array(schema: Schema, indent: str) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_write(one, indent) for one in schema['prefixItems'])}]"
    return f"Array<{_write(schema.get('items', {}), indent)}>"


def _write_object(schema: Schema, indent: str) -> str:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if not properties:
        more = schema.get("additionalProperties", True)
        patterns = [_write(one, indent) for one in schema.get("patternProperties", {}).values()]
        value = " | ".join(patterns) or ("unknown" if more is True else _write(more or {}, indent))
        return f"Record<string, {value}>"
    inner = indent + "  "
    required = set(schema.get("required", ()))
    lines: list[str] = []
    for name, one in properties.items():
        lines.extend(_comment(one, inner))
        key = name if name.isidentifier() else json.dumps(name)
        mark = "" if name in required else "?"
        lines.append(f"{inner}{key}{mark}: {_write(one, inner)};\n")
    # A later version may answer with more fields; a page that reads one has misspelt another.
    return f"{{\n{''.join(lines)}{indent}}}"


def _break(written: str) -> str:
    """Write a long choice with one line for each part."""
    if len(written) <= WIDTH_MAX or "{" in written or " | " not in written:
        return written
    return "".join(f"\n  | {part}" for part in written.split(" | "))


def main() -> None:
    """Write the file, from the description of this version."""
    from dialectic.api.app import build_api

    PLACE.write_text(write_types(build_api().openapi()))
    print(PLACE.relative_to(Path.cwd()) if PLACE.is_relative_to(Path.cwd()) else PLACE)


if __name__ == "__main__":
    main()
