"""How many examples a property is tried with: few while one writes, all before a change is offered.

`HYPOTHESIS_PROFILE=thorough` asks for all; `make test` and `make fuzz` set it. Each run draws other
examples, and none is judged by the clock: a loaded machine fails no test.
"""

from __future__ import annotations

import os

import hypothesis

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
EXAMPLES = 50
# Of the examples of a thorough run, one in so many is drawn in a quick one.
SHARE = {"quick": 5, "thorough": 1}

for name, share in SHARE.items():
    hypothesis.settings.register_profile(name, deadline=None, max_examples=EXAMPLES // share)


def examples(count: int) -> hypothesis.settings:
    """Try a property with its own number of examples, or with a quick run's share of it."""
    return hypothesis.settings(max_examples=max(1, count // SHARE[PROFILE]))
