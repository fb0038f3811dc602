"""What a server tells is believed, but not with everything."""

from __future__ import annotations

import pytest

from dialectic.cli.remote import check_path
from dialectic.errors import ConfigurationError
from tests.cases import each_case


@each_case(
    "path", ["../x", "/etc/passwd", "hall/../../x", "hall//x", "", ".", "hall/..", "a\\b", "a\x1b"]
)
def test_a_path_that_leads_astray_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError):
        check_path(path)


def test_a_path_in_a_folder_is_taken() -> None:
    assert check_path("hall/session_1/x.md") == "hall/session_1/x.md"
