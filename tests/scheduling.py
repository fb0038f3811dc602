"""Which tests run in one process: those of a module whose set-up would be repeated in each.

Knows modules by their text alone, for the process that deals tests out collects none.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]

BROWSER = "tests/browser/"
SHARED = 'scope="module"'


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Deals out a module that shares a set-up as a whole, and all other tests one by one.

    Modules come first, those of many tests before those of few, and the quick tests of single
    functions last. Every third process begins with those: it has something to calculate while the
    others wait for leases and servers, and where they meet no test takes long.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module.startswith(BROWSER):
            return BROWSER  # they share a server
        return module if shares_setup(self._root / module) else nodeid

    def _assign_work_unit(self, node: Any) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 3 == 2:
            last = next(reversed(self.workqueue))
            self.workqueue.move_to_end(last, last=False)
        super()._assign_work_unit(node)


@cache
def shares_setup(module: Path) -> bool:
    """Say whether a module of tests has a set-up that all of its tests share."""
    return SHARED in module.read_text(encoding="utf-8")
