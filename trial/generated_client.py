"""Calls every operation with a generated client: `python -m trial.generated_client API FOLDER URL`.

Runs where the client's own requirements are installed, so it imports nothing of Dialectic. A path
parameter is the id of something that was made before, if there is such a thing; a required body
has its required fields with the values of the description's examples.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints
from uuid import uuid4

TIMEOUT_S = 30.0
METHODS = ("post", "get", "put", "patch", "delete")
STREAM = "text/event-stream"
# Where it is described, it is the fault of a server that ours has asked.
PROVIDER_FAILED = 502


class Description:
    """The operations of an API, and values that it takes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas: dict[str, Any] = document["components"]["schemas"]
        self._paths: dict[str, Any] = document["paths"]

    def list_operations(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each operation with its method: those that make something first."""
        for method in METHODS:
            for item in self._paths.values():
                if method in item:
                    yield method, item[method]

    def build_value(self, schema: dict[str, Any]) -> Any:
        """Build a value of a schema: its example, else the simplest."""
        if "$ref" in schema:
            return self.build_value(self._schemas[schema["$ref"].rpartition("/")[2]])
        if examples := schema.get("examples") or schema.get("enum"):
            return examples[0]
        if kinds := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
            return self.build_value(kinds[0])
        return schema["const"] if "const" in schema else self._build_plain(schema)

    def _build_plain(self, schema: dict[str, Any]) -> Any:
        match schema.get("type"):
            case "object":
                fields = schema.get("properties", {})
                return {name: self.build_value(fields[name]) for name in schema.get("required", [])}
            case "array":
                return [self.build_value(schema["items"])] if schema.get("minItems") else []
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return False
            case _:
                return str(uuid4()) if schema.get("format") == "uuid" else "text"


class Caller:
    """Calls operations; remembers what was made, by the name of its path parameter."""

    def __init__(self, description: Description, package: str, url: str) -> None:
        self._description, self._package = description, package
        client = importlib.import_module(f"{package}.client")
        self._client = client.Client(base_url=url, timeout=TIMEOUT_S)
        self.made: dict[str, str] = {}
        self.faults: list[str] = []
        self.count = 0

    def call(self, method: str, operation: dict[str, Any]) -> None:
        """Call an operation with all that it requires, and nothing else."""
        name = operation["operationId"]
        if STREAM in json.dumps(operation["responses"].get("200", {})):
            return  # it does not end
        tag = operation["tags"][0]
        module = importlib.import_module(f"{self._package}.api.{tag}.{name}")
        try:
            answer = module.sync_detailed(client=self._client, **self._fill(module, operation))
        except Exception as error:  # noqa: BLE001  whatever a caller would meet is a fault
            self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            return
        self.count += 1
        status = int(answer.status_code)
        if str(status) not in operation["responses"]:
            self.faults.append(f"{name}: {status} is not described: {answer.content[:200]!r}")
        elif status >= 500 and status != PROVIDER_FAILED:
            self.faults.append(f"{name}: {status}: {answer.content[:200]!r}")
        elif method == "post" and status in (200, 201):
            self._remember(tag, answer.content)

    def _fill(self, module: Any, operation: dict[str, Any]) -> dict[str, Any]:
        schemas = {one["name"]: one["schema"] for one in operation.get("parameters", [])}
        kinds = get_type_hints(module.sync_detailed)
        filled = {}
        for name, parameter in inspect.signature(module.sync_detailed).parameters.items():
            if name == "client" or parameter.default is not inspect.Parameter.empty:
                continue
            kind = kinds[name]
            if name == "body":
                filled[name] = self._build_body(kind, operation)
            else:
                # A generator adds an underscore to what is a word of Python: `with_`.
                schema = schemas.get(name) or schemas[name.removesuffix("_")]
                value = self.made.get(name) or self._description.build_value(schema)
                is_plain = kind in (str, int, bool) or not isinstance(kind, type)
                filled[name] = value if is_plain else kind(value)
        return filled

    def _build_body(self, kind: Any, operation: dict[str, Any]) -> Any:
        schema = next(iter(operation["requestBody"]["content"].values()))["schema"]
        if "$ref" in schema:
            return kind.from_dict(self._description.build_value(schema))
        types = importlib.import_module(f"{self._package}.types")
        file = types.File(payload=io.BytesIO(b"A text."), file_name="a.txt", mime_type="text/plain")
        if kind is types.File:
            return file
        fields = self._description.build_value({**schema, "examples": None})
        return kind(**{**fields, "file": file})

    def _remember(self, tag: str, content: bytes) -> None:
        try:
            found = json.loads(content)
        except ValueError:
            return
        if isinstance(found, dict) and isinstance(found.get("id"), str):
            self.made.setdefault(f"{tag.removesuffix('s')}_id", found["id"])


def main(document: str, folder: str, url: str) -> int:
    """Call all; say what was seen."""
    description = Description(json.loads(Path(document).read_text()))
    (package,) = (path.parent for path in Path(folder).glob("*/client.py"))
    sys.path.insert(0, folder)
    caller = Caller(description, package.name, url)
    for method, operation in description.list_operations():
        caller.call(method, operation)
    print(f"{caller.count} operations called by the generated client")
    for fault in caller.faults:
        print(f"fault: {fault}")
    return 1 if caller.faults or not caller.count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
