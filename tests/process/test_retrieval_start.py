"""What searches costs nothing until something is searched."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import dialectic.engine, dialectic.app.search, dialectic.retrieval.index, dialectic.retrieval.search
heavy = {"numpy", "tokie", "onnxruntime", "wordllama", "semantic_text_splitter", "httpx2"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_no_model_and_no_library_of_numbers_is_loaded_at_the_start() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
