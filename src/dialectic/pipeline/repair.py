"""Decide what an answer means for its document, and whether to ask for something once more. Pure.

`interpret` decides whether an answer is finished. A finished answer may still be a copy of one of
its inputs, or lack sections that its stage promises. If the process has a prompt for that, one
further turn asks for the document or for just those sections. Then the document is what it is, and
its flags say what is wrong with it. A part of the process may give it a `second_look`.
"""

from __future__ import annotations

from dataclasses import replace

from dialectic.core.documents.echoes import ECHO, cut_echoes, find_copied
from dialectic.core.documents.shortcomings import COPY
from dialectic.core.documents.stitching import join
from dialectic.core.documents.turns import (
    CUT_OFF,
    REPEATED,
    REWRITE,
    SECTIONS,
    Ask,
    append_sections,
    has_repair,
    list_copied,
    list_lacking,
)
from dialectic.core.models.messages import FinishReason, Reply
from dialectic.errors import ProviderFiltered, ProviderMalformed
from dialectic.pipeline.assemble import list_instructions
from dialectic.pipeline.gather import Material
from dialectic.pipeline.interpret import (
    WINDOW_FULL,
    Continue,
    Finish,
    Limits,
    close,
    finish,
    interpret,
)
from dialectic.pipeline.second_look import decide_look, skip_look, take_look

SECTIONS_ADDED = "sections_added"


def decide_outcome(
    reply: Reply, material: Material, limits: Limits
) -> tuple[Reply, Finish | Continue]:
    """Decide whether a document is finished, or what its next turn asks for.

    Returns the answer without echoes of our own requests, too.
    """
    cleared = cut_echoes(reply.text, list_instructions(material))
    if cleared.has_echo:
        reply = replace(reply, text=cleared.text)
    outcome = _decide(reply, material, limits)
    if isinstance(outcome, Finish):
        outcome = decide_look(outcome, material)
    return reply, replace(outcome, flags=(*outcome.flags, ECHO)) if cleared.has_echo else outcome


def _decide(reply: Reply, material: Material, limits: Limits) -> Finish | Continue:
    if material.ask is Ask.LOOK:
        return take_look(reply, material)
    if material.ask is Ask.SECTIONS:
        return _add_sections(reply, material)
    base = material.base
    # Turns that the text does not consist of count as well; the repair has a turn of its own.
    unused = len(material.chunks) - len(base) - int(has_repair(material.chunks))
    limits = replace(
        limits,
        continuations_max=max(0, limits.continuations_max - unused),
        may_repeat=not any(REPEATED in chunk.flags for chunk in material.chunks),
    )
    has_stopped = any(chunk.finish_reason is FinishReason.STOP for chunk in base)
    said = [chunk.text for chunk in base]
    try:
        outcome = interpret(reply, said, limits, has_stopped=has_stopped)
    except (ProviderFiltered, ProviderMalformed):
        if material.ask is Ask.REWRITE:
            return give_up(material)
        raise
    if isinstance(outcome, Continue) or outcome.is_incomplete:
        return outcome
    return _review(outcome, material)


def _review(outcome: Finish, material: Material) -> Finish | Continue:
    """Check a finished answer: is it new, and does it have the promised sections?"""
    may_ask = material.repair is not None and not has_repair(material.chunks)
    originals = ((item.label, item.text) for item in material.originals)
    if (copied := find_copied(outcome.text, originals)) is not None:
        if may_ask:
            return Continue((f"{REWRITE}{copied}",))
        return replace(outcome, flags=(*outcome.flags, COPY))
    lacking = list_lacking(outcome.text, material.expected) if may_ask else ()
    return Continue(tuple(f"{SECTIONS}{key}" for key in lacking)) if lacking else outcome


def _add_sections(reply: Reply, material: Material) -> Finish:
    joined = join([chunk.text for chunk in material.base])
    lacking = list_lacking(joined.text, material.expected)
    wanted = [document for document in material.expected if document.key in lacking]
    is_text = reply.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    text = append_sections(joined.text, reply.text, wanted) if is_text else joined.text
    if text == joined.text:
        return finish(joined, is_incomplete=False)
    is_cut = reply.finish_reason is FinishReason.LENGTH
    flags = (SECTIONS_ADDED, *([CUT_OFF] if is_cut else []))
    return finish(replace(joined, text=text), is_incomplete=is_cut, flags=flags)


def close_early(material: Material) -> Finish:
    """Build the document from the turns so far, because no further turn fits the model."""
    if material.ask is not Ask.TEXT:
        return give_up(material)
    return close([chunk.text for chunk in material.base], WINDOW_FULL)


def give_up(material: Material) -> Finish:
    """Build the document without what was asked for again."""
    if material.ask is Ask.LOOK:
        return skip_look(material)
    if material.ask is Ask.REWRITE:
        copied = join([chunk.text for chunk in list_copied(material.chunks)])
        return finish(copied, is_incomplete=False, flags=(COPY,))
    return finish(join([chunk.text for chunk in material.base]), is_incomplete=False)
