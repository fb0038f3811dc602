"""HTTP routes of what people said: read it, change it, take it back."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Reading, Writing
from dialectic.api.pagination import list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import feedback
from dialectic.contract.base import Page
from dialectic.contract.feedback import Feedback, FeedbackChange

router = APIRouter(tags=["contributions"])
FeedbackId = Annotated[UUID, Path(description="The id of a feedback entry or a rating.")]


@router.get("/sessions/{session_id}/feedback")
async def list_feedback(session_id: SessionId, context: Reading) -> Page[Feedback]:
    """List feedback and ratings of a session, oldest first."""
    return list_whole(await context.run(feedback.list_entries, session_id))


@router.patch("/feedback/{feedback_id}", response_model=Feedback)
async def change_feedback(
    feedback_id: FeedbackId, body: FeedbackChange, write: Writing
) -> Response:
    """Change your feedback or your rating. Later prompts include it as it is then."""
    return await write.answer(feedback.change, feedback_id, body)


@router.delete("/feedback/{feedback_id}", status_code=204)
async def remove_feedback(feedback_id: FeedbackId, write: Writing) -> Response:
    """Take back feedback or a rating: yours, or any in a session of yours."""
    await write.run(feedback.remove, feedback_id)
    return Response(status_code=204)
