"""Documents as HTML, and what differs between two: off the event loop, once per text.

What was rendered is kept while there is room; other requests for the same text wait for the first.
A preview is limited in size and rate.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import UUID

from dialectic.app.request_rates import RequestRates
from dialectic.contract.contributions import Contribution
from dialectic.contract.documents import DiffSection, DiffWords, DocumentDiff
from dialectic.core.documents.safe_html import RENDERER_VERSION, render_markdown
from dialectic.core.documents.text_diff import compare_texts
from dialectic.engine import Engine
from dialectic.rendering import IN_THREAD_CHARS_MAX, render_json

KEPT_BYTES_MAX = 64_000_000
# Each long text is a process that uses a whole CPU.
RENDERED_AT_ONCE = 2
PREVIEWS_PER_S = 10.0
# Below the title of a page and the heading of a part of it.
PART_LEVEL = 2


@dataclass(slots=True)
class Renderings:
    """The rendered texts of this process, the last used ones last."""

    kept: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)
    kept_bytes: int = 0
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RENDERED_AT_ONCE))
    previews: RequestRates = field(default_factory=lambda: RequestRates(PREVIEWS_PER_S))
    # How often a text was rendered.
    count: int = 0

    def find(self, key: bytes) -> bytes | None:
        """Find a rendered text; it becomes the last used one."""
        found = self.kept.get(key)
        if found is not None:
            self.kept.move_to_end(key)
        return found

    def keep(self, key: bytes, rendered: bytes) -> None:
        """Keep a rendered text, and drop those that were not used for longest."""
        self.kept[key] = rendered
        self.kept_bytes += len(rendered)
        while self.kept_bytes > KEPT_BYTES_MAX and len(self.kept) > 1:
            _, dropped = self.kept.popitem(last=False)
            self.kept_bytes -= len(dropped)


def get_renderings(engine: Engine) -> Renderings:
    """Return the rendered texts of this process."""
    found = engine.made.setdefault("renderings", Renderings())
    assert isinstance(found, Renderings)
    return found


async def render(engine: Engine, text: str) -> bytes:
    """Render a text as the JSON of a `RenderedDocument`."""
    renderings, key = get_renderings(engine), _hash(text)
    async with engine.turns.lock(("rendering", key)):
        found = renderings.find(key)
        if found is None:
            async with renderings.slots:
                renderings.count += 1
                found = await asyncio.to_thread(render_json, text)
            renderings.keep(key, found)
    return found


async def render_part(engine: Engine, text: str) -> str | None:
    """Render a text as a part of a page, its headings lowered; None if it is too long for that."""
    if len(text) > IN_THREAD_CHARS_MAX:
        return None
    renderings, key = get_renderings(engine), b"part" + _hash(text)
    found = renderings.find(key)
    if found is None:
        async with renderings.slots:
            rendered = await asyncio.to_thread(render_markdown, text, level=PART_LEVEL)
        found = rendered.encode()
        renderings.keep(key, found)
    return found.decode()


async def render_preview(engine: Engine, tenant_id: UUID, text: str) -> bytes:
    """Render a text that is not saved, within the tenant's rate."""
    get_renderings(engine).previews.admit(tenant_id, "previews")
    return await render(engine, text)


async def compare(engine: Engine, before: Contribution, after: Contribution) -> DocumentDiff:
    """Compare two contributions, or two versions of one."""
    async with get_renderings(engine).slots:
        found = await asyncio.to_thread(compare_texts, before.content, after.content)
    words = DiffWords(added=found.words_added, removed=found.words_removed)
    return DocumentDiff(
        before_id=before.id,
        after_id=after.id,
        sections=[DiffSection.model_validate(section) for section in found.sections],
        words=words,
    )


def name_version(text: str) -> str:
    """Name what a text is rendered to: equal names, equal HTML."""
    return f"{RENDERER_VERSION}-{_hash(text).hex()[:32]}"


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
