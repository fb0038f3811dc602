"""Long texts are rendered in a child process; one that takes too long is shown as it is."""

from __future__ import annotations

import json

from dialectic.contract.documents import RenderedDocument
from dialectic.core.documents.safe_html import render_plain, render_text
from dialectic.rendering import IN_THREAD_CHARS_MAX, render_json

LONG = ("# A\n\nSome *words* \u00e9 \U0001f600 \u202e.\n\n" * 5_000) + "- end\n"


def test_a_long_text_is_rendered_as_a_short_one_is() -> None:
    assert len(LONG) > IN_THREAD_CHARS_MAX
    shown = RenderedDocument.model_validate_json(render_json(LONG))
    here = render_text(LONG)
    assert shown.html == here.html
    assert [(b.id, b.start, b.end) for b in shown.blocks] == [
        (b.id, b.start, b.end) for b in here.blocks
    ]


def test_a_text_that_takes_too_long_is_shown_as_it_is() -> None:
    assert json.loads(render_json(LONG, cpu_s=0.01))["html"] == render_plain(LONG).html


def test_half_characters_are_repaired_on_the_way() -> None:
    assert "\ufffd" in json.loads(render_json("\ud800 " * IN_THREAD_CHARS_MAX))["html"]
