"""A key is given out only on purpose."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from dialectic.core.access import Secret
from tests.cases import each_case

KEY = "sk-canary-2f9d"


@each_case("show", [repr, str, "{}".format, "{!r}".format])
def test_it_does_not_show_itself(show: object) -> None:
    assert callable(show)
    assert KEY not in show(Secret(KEY))


@pytest.mark.parametrize("write", [pickle.dumps, json.dumps, copy.copy])
def test_it_cannot_be_written_anywhere(write: object) -> None:
    assert callable(write)
    with pytest.raises(TypeError):
        write(Secret(KEY))


def test_it_is_given_out_when_asked_for_and_blanked_out_of_foreign_text() -> None:
    assert Secret(KEY).reveal() == KEY
    assert Secret(KEY).redact(f"wrong key {KEY}, try again") == "wrong key ***, try again"
    assert Secret("").redact("nothing to hide") == "nothing to hide"
