"""What of an answer is on the screen, whatever became of its stream."""

from __future__ import annotations

import pytest

from dialectic.cli.commands.chat import _Shown


@pytest.mark.parametrize(
    ("pieces", "screen"),
    [
        (["The Early ", "Loaf."], "The Early Loaf.\n"),
        (["The "], "The Early Loaf.\n"),
        ([], "The Early Loaf.\n"),
        (["Bread & Co"], "Bread & Co\n\nThe Early Loaf.\n"),
    ],
)
def test_the_whole_answer_is_on_the_screen_in_the_end(
    pieces: list[str], screen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = _Shown(is_live=True)
    for piece in pieces:
        shown.show(piece)
    shown.finish("The Early Loaf.")

    assert capsys.readouterr().out == screen
