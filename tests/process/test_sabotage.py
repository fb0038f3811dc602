"""Ways to break the product still find what they break; whether that is noticed, `chaos --prove`
tells."""

from __future__ import annotations

import subprocess
import sys

from chaos import prove, sabotage
from tests.cases import each_case

# In a process of its own, which it breaks; one for all, because what they replace is not the same.
PATCH_ALL = """
from chaos import sabotage
for way in sabotage.ALL.values():
    try:
        way.patch()
    except (LookupError, AssertionError) as error:
        print(way.name, error)
"""


@each_case("name", sabotage.ALL)
def test_what_is_edited_in_the_database_is_there(name: str) -> None:
    list(sabotage.load(name).build_statements())


def test_what_is_replaced_in_the_program_is_there() -> None:
    command = [sys.executable, "-c", PATCH_ALL]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == ""


def test_every_way_is_proved() -> None:
    assert {what for _, _, what, _ in prove.PROOFS} == set(sabotage.ALL) - {"none"}
