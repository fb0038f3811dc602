"""HTTP routes of the tenant's own endpoints: add, list, test, remove. No response holds a key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from dialectic.api.dependencies import Reading, RequestContext, WriteRequest, allow, allow_act
from dialectic.api.openapi import more_problems
from dialectic.api.pagination import list_whole
from dialectic.app import endpoints
from dialectic.contract.base import Page
from dialectic.contract.endpoints import (
    EndpointName,
    EndpointRequest,
    EndpointTest,
    EndpointTestRequest,
    OwnEndpoint,
)
from dialectic.core.access import Scope

router = APIRouter(tags=["account"])
Managing = Annotated[WriteRequest, Depends(allow_act(Scope.ADMIN))]
Named = Annotated[EndpointName, Path(description="The name of an endpoint of your account.")]


@router.post("/endpoints", status_code=201, response_model=OwnEndpoint)
async def add_endpoint(body: EndpointRequest, write: Managing) -> Response:
    """Add an endpoint that only your tenant can use; its models are called `@NAME/model`.

    The key is stored encrypted and never shown again. You pay the provider; no wallet is charged.
    """
    return await write.answer(endpoints.add, body)


@router.get("/endpoints")
async def list_endpoints(context: Reading) -> Page[OwnEndpoint]:
    """List your tenant's own endpoints, without their keys."""
    return list_whole(await context.run(endpoints.list_all))


@router.post("/endpoints/{name}/test", responses=more_problems(502))
async def test_endpoint(
    name: Named,
    body: EndpointTestRequest,
    context: Annotated[RequestContext, Depends(allow(Scope.SPEND))],
) -> EndpointTest:
    """Test an endpoint with a real call of a few tokens, which your provider may charge for."""
    return await endpoints.test(context, name, body)


@router.delete("/endpoints/{name}", status_code=204)
async def remove_endpoint(name: Named, write: Managing) -> Response:
    """Remove an endpoint and its key. Jobs that still need it fail."""
    await write.run(endpoints.remove, name)
    return Response(status_code=204)
