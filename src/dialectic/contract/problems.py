"""Errors on the wire, as RFC 9457 defines them. Pure."""

from __future__ import annotations

from pydantic import (
    BaseModel,
    Field,
)

from dialectic.errors import RemedyAction

TYPE_PREFIX = "urn:dialectic:problem:"


class FieldError(BaseModel):
    """One thing that is wrong with a request, and where."""

    path: str = Field(description="Where: `/body/models/0`, `/query/limit`.")
    message: str
    code: str


class ProblemRemedy(BaseModel):
    """What helps, for programs: an action, and the parameters that it has."""

    action: RemedyAction = Field(description="A name that never changes; others may be added.")
    session_id: str | None = Field(default=None, description="The session to act on.")
    model: str | None = Field(default=None, description="A model with a similar name.")
    scope: str | None = Field(default=None, description="The scope that a token needs.")
    user: str | None = Field(default=None, description="The user to act on.")
    setting: str | None = Field(default=None, description="The setting that the operator sets.")
    is_play: bool | None = Field(default=None, description="Whether play money is missing.")


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(
        description="A name that never changes.", examples=[f"{TYPE_PREFIX}not_found"]
    )
    title: str = Field(examples=["There is no such thing, or it belongs to someone else."])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no project 3fa85f64-5717-4562-b3fc-2c963f66afa6."])
    code: str = Field(description="What programs go by.", examples=["not_found"])
    instance: str = Field(description="The path that was asked for.")
    request_id: str = Field(description="Also in the header X-Request-ID, and in the logs.")
    reason: str | None = Field(
        default=None, description="Which case of the code it is.", examples=["no_session"]
    )
    remedy: ProblemRemedy | None = Field(default=None, description="What helps, if that is known.")
    errors: list[FieldError] = Field(default=[], description="Of a request that does not validate.")
