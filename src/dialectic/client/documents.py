"""Calls about documents as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from dialectic.client.call import Call, act, fill, get, ignore_body
from dialectic.contract.base import Page
from dialectic.contract.documents import DocumentDiff, RenderedDocument, RenderRequest
from dialectic.contract.feedback import Feedback, FeedbackChange
from dialectic.contract.search import Hits, SearchKind
from dialectic.contract.shares import IssuedShare, Share, ShareRequest


def render_contribution(contribution_id: UUID) -> Call[RenderedDocument]:
    """Show the text of a contribution as HTML that is safe to put into a page."""
    return get(f"/contributions/{contribution_id}/html", RenderedDocument)


def render_document(document_id: UUID) -> Call[RenderedDocument]:
    """Show the text of a document or a resource as HTML that is safe to put into a page."""
    return get(f"/documents/{document_id}/html", RenderedDocument)


def compare(contribution_id: UUID, other_id: UUID) -> Call[DocumentDiff]:
    """Show what changed from another contribution or version to this one."""
    return get(f"/contributions/{contribution_id}/diff", DocumentDiff, **{"with": other_id})


def render_text(text: str) -> Call[RenderedDocument]:
    """Show a text as HTML, as it would look in a document."""
    return act("/render", RenderedDocument, fill(RenderRequest, text=text))


def list_feedback(session_id: UUID) -> Call[Page[Feedback]]:
    """List feedback and ratings of a session, oldest first."""
    return get(f"/sessions/{session_id}/feedback", Page[Feedback])


def change_feedback(
    feedback_id: UUID,
    *,
    text: str | None = None,
    rating: int | None = None,
    key: str | None = None,
) -> Call[Feedback]:
    """Change your feedback or your rating."""
    body = fill(FeedbackChange, text=text, rating=rating)
    return act(f"/feedback/{feedback_id}", Feedback, body, key=key, method="PATCH")


def remove_feedback(feedback_id: UUID) -> Call[None]:
    """Take back feedback or a rating: yours, or any in a session of yours."""
    return Call(method="DELETE", path=f"/feedback/{feedback_id}", read=ignore_body)


def share_session(
    session_id: UUID,
    *,
    days: int | None = None,
    pass_phrase: str | None = None,
    drafts: bool | None = None,
    names: bool | None = None,
) -> Call[IssuedShare]:
    """Make a link to a session's report. Not repeated: its secret is shown once."""
    wanted = fill(ShareRequest, days=days, pass_phrase=pass_phrase, drafts=drafts, names=names)
    call = act(f"/sessions/{session_id}/shares", IssuedShare, wanted)
    return replace(call, key=None)


def list_shares(session_id: UUID) -> Call[Page[Share]]:
    """List the links to a session's report that work."""
    return get(f"/sessions/{session_id}/shares", Page[Share])


def revoke_share(share_id: UUID) -> Call[None]:
    """Revoke a link."""
    return Call(method="DELETE", path=f"/shares/{share_id}", read=ignore_body)


def search_all(
    q: str, *, kinds: Sequence[SearchKind] | None = None, limit: int | None = None
) -> Call[Hits]:
    """Find projects, sessions, documents, passages and chats by words, best first."""
    return get("/search", Hits, q=q, kinds=None if kinds is None else ",".join(kinds), limit=limit)
