"""Prints the OpenAPI document, for client generators: `python -m dialectic.api`."""

from __future__ import annotations

import json
import sys

from dialectic.api.app import build_api

sys.stdout.write(json.dumps(build_api().openapi(), indent=2) + "\n")
