"""Error responses (problem+json, RFC 9457). Pure."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field

from dialectic.contract.contributions import ContributionVersion
from dialectic.errors import RemedyAction, read_remedy

TYPE_PREFIX = "urn:dialectic:problem:"


class FieldError(BaseModel):
    """One invalid field of a request."""

    path: str = Field(description="The field: `/body/models/0`, `/query/limit`.")
    message: str
    code: str


class ProblemRemedy(BaseModel):
    """The next step, for programs: an action and its parameters."""

    action: RemedyAction = Field(description="A stable name; new ones may be added.")
    session_id: str | None = Field(default=None, description="The session to act on.")
    seat: int | None = Field(default=None, description="The seat of the session to act on.")
    model: str | None = Field(default=None, description="A model with a similar name.")
    endpoint: str | None = Field(default=None, description="The endpoint to add.")
    scope: str | None = Field(default=None, description="The scope that a token needs.")
    user: str | None = Field(default=None, description="The user to act on.")
    setting: str | None = Field(
        default=None, description="The setting that the operator must change."
    )
    is_play: bool | None = Field(
        default=None, description="Whether the missing money is play money."
    )


def _keep_known(remedy: object) -> object:
    """A newer server may name an action that is unknown here."""
    return remedy if isinstance(remedy, ProblemRemedy) or read_remedy(remedy) else None


# In events and notifications: null if this version does not know the action.
KnownRemedy: TypeAlias = Annotated[ProblemRemedy | None, BeforeValidator(_keep_known)]


class Problem(BaseModel):
    """An error response (RFC 9457)."""

    type: str = Field(
        description="A stable URN that names the error.", examples=[f"{TYPE_PREFIX}not_found"]
    )
    title: str = Field(examples=["Not found, or not visible to this account."])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["Project 3fa85f64-5717-4562-b3fc-2c963f66afa6 was not found."])
    code: str = Field(description="The stable error code for programs.", examples=["not_found"])
    instance: str = Field(description="The path of the request.")
    request_id: str = Field(description="Also in the X-Request-ID header and in the logs.")
    reason: str | None = Field(
        default=None, description="Distinguishes the cases of one code.", examples=["no_session"]
    )
    remedy: ProblemRemedy | None = Field(default=None, description="The next step, if known.")
    current: ContributionVersion | None = Field(
        default=None, description="The newest version, if a contribution has changed (412)."
    )
    errors: list[FieldError] = Field(
        default=[], description="The invalid fields, if validation failed."
    )
