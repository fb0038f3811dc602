"""Render a text as HTML, as the JSON of the API: `render_json`. It blocks, so call it in a thread.

A short text is rendered here. A long one is rendered in a child process, because the interpreter
runs one thread at a time: seconds of rendering would slow every other request down. A text that
takes the child too long is shown as it is. Knows nothing of documents, caches or requests.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from dialectic.child_process import ChildLimits, limit_resources, run_child
from dialectic.core.documents.markdown_blocks import repair_halves
from dialectic.core.documents.safe_html import SafeHtml, render_plain, render_text

IN_THREAD_CHARS_MAX = 50_000
CPU_S = 20
MEMORY_BYTES_MAX = 2_000_000_000
# A block of two characters may become a hundred bytes of HTML and as many of its place.
ANSWER_BYTES_MAX = 400_000_000


def render_json(text: str, *, cpu_s: float = CPU_S) -> bytes:
    """Render a text; the answer is a `RenderedDocument`."""
    if len(text) <= IN_THREAD_CHARS_MAX:
        return _dump(render_text(text))
    limits = ChildLimits(cpu_s, MEMORY_BYTES_MAX, ANSWER_BYTES_MAX)
    data = repair_halves(text).encode()
    try:
        code, out = run_child("dialectic.rendering", [], data, limits)
    except OSError:  # no room for another process: show it as it is
        code, out = 1, b""
    if code == 0 and out.endswith(b"}") and len(out) <= ANSWER_BYTES_MAX:
        return out
    return _dump(render_plain(text))


def _dump(rendered: SafeHtml) -> bytes:
    return json.dumps(asdict(rendered), ensure_ascii=False, separators=(",", ":")).encode()


if __name__ == "__main__":
    limit_resources(cpu_s=CPU_S, memory_bytes_max=MEMORY_BYTES_MAX)
    sys.stdout.buffer.write(_dump(render_text(sys.stdin.buffer.read().decode())))
