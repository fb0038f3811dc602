"""HTTP routes of the agreed plan's files: list them, replace, move or delete one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from dialectic.api.dependencies import IfMatch, Reading, Writing, matches
from dialectic.api.openapi import more_problems
from dialectic.api.pagination import list_whole
from dialectic.api.routes.projects import ProjectId
from dialectic.app import plan_files
from dialectic.app.plan_files import IsSeen
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.projects import PlanFile, PlanFileContent, PlanFileMove, PlanFileTicks

router = APIRouter(tags=["projects"])

PlanPath = Annotated[
    str,
    Query(
        min_length=1,
        max_length=1000,
        pattern=r"^[^\x00]+$",
        description="The path in storage, as the plan lists it.",
    ),
]


@router.get("/projects/{project_id}/plan")
async def list_plan(project_id: ProjectId, context: Reading) -> Page[PlanFile]:
    """List the files in `Pending/`, `Current/` and `Complete/`, as they are now."""
    return list_whole(await plan_files.list_plan(context, project_id))


@router.put(
    "/projects/{project_id}/plan/file", response_model=PlanFile, responses=more_problems(412)
)
async def replace_plan_file(
    project_id: ProjectId,
    body: PlanFileContent,
    write: Writing,
    path: PlanPath,
    if_match: IfMatch = None,
) -> Response:
    """Replace a file of the plan with your text, or add one of your own."""

    async def replace(tx: Transaction) -> PlanFile:
        is_seen = _expect(if_match)
        return await plan_files.replace_content(tx, project_id, path, body.content, is_seen)

    return await write.answer(replace)


@router.patch(
    "/projects/{project_id}/plan/file", response_model=PlanFile, responses=more_problems(412)
)
async def tick_plan_steps(
    project_id: ProjectId,
    body: PlanFileTicks,
    write: Writing,
    path: PlanPath,
    if_match: IfMatch = None,
) -> Response:
    """Tick or untick steps of a file of the plan; nothing else of its text changes."""

    async def tick(tx: Transaction) -> PlanFile:
        return await plan_files.tick(tx, project_id, path, body.steps, _expect(if_match))

    return await write.answer(tick)


@router.post(
    "/projects/{project_id}/plan/move", response_model=PlanFile, responses=more_problems(412)
)
async def move_plan_file(
    project_id: ProjectId,
    body: PlanFileMove,
    write: Writing,
    path: PlanPath,
    if_match: IfMatch = None,
) -> Response:
    """Move a file of the plan to another folder. Moving it twice is one move."""

    async def move(tx: Transaction) -> PlanFile:
        return await plan_files.move(tx, project_id, path, body.status, _expect(if_match))

    return await write.answer(move)


@router.delete("/projects/{project_id}/plan/file", status_code=204, responses=more_problems(412))
async def delete_plan_file(
    project_id: ProjectId, write: Writing, path: PlanPath, if_match: IfMatch = None
) -> Response:
    """Delete a file of the plan; no later plan brings its text back there."""
    await write.run(plan_files.delete, project_id, path, _expect(if_match))
    return Response(status_code=204)


def _expect(if_match: str | None) -> IsSeen:
    """Expect a file as it was read: one that has gone since is not the same either."""
    return lambda file: if_match is None or (file is not None and matches(if_match, file.etag))
