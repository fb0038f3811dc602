"""Whatever happens to money in whatever order, the books say the same as a plain dict."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from chaos.accounts import build_machine, open_bank
from dialectic.db.pool import Address

EXAMPLES, STEPS = 12, 30


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.mark.slow
def test_the_books_follow_a_plain_dict(address: Address) -> None:
    with open_bank(address) as bank:
        run_state_machine_as_test(
            build_machine(bank),
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        assert bank.steps >= EXAMPLES * STEPS / 3
