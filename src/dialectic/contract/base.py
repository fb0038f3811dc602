"""Base classes, value types and pages for all requests and responses. Pure."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from dialectic.core.money.price import parse_usd
from dialectic.errors import UsageError

CREDITS_PER_USD_EXPONENT = -6


class RequestBody(BaseModel):
    """A request body. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


@dataclass(frozen=True, slots=True)
class Column:
    """Names the column of a field, where the two names differ."""

    name: str


class ResponseBody(BaseModel):
    """A response body. It also validates a row of the database, with the names of its columns."""

    model_config = ConfigDict(
        populate_by_name=True, serialize_by_alias=True, from_attributes=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read_row(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        columns = _list_columns(cls)
        return {**value, **{name: value[key] for name, key in columns.items() if key in value}}


@functools.cache
def _list_columns(kind: type[ResponseBody]) -> dict[str, str]:
    return {
        name: mark.name
        for name, field in kind.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Column)
    }


def build_record(body: ResponseBody) -> dict[str, object]:
    """Name the fields of a response as their columns, with amounts in credits."""
    columns, record = _list_columns(type(body)), dict[str, object]()
    for name in type(body).model_fields:
        column, value = columns.get(name, name), getattr(body, name)
        record[column] = read_credits(value) if column.endswith("_credits") else value
    return record


def _parse_dollars(value: Any) -> Any:
    """Turn a JSON number into its digits: 0.1 is exactly a tenth of a dollar."""
    if isinstance(value, bool):
        return value
    return repr(value) if isinstance(value, int | float) else value


def _check_dollars(text: str) -> str:
    try:
        parse_usd(text)
    except UsageError:
        msg = "not an amount in dollars: write digits with up to six decimals, as in `20` or `0.5`"
        raise ValueError(msg) from None
    return text


def _refuse_nul(text: str) -> str:
    if "\0" in text:
        msg = "must not contain a NUL character"
        raise ValueError(msg)
    return text


Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=500)]


Slug: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=64)]


Line: TypeAlias = Annotated[str, StringConstraints(max_length=500), AfterValidator(_refuse_nul)]


# US dollars, in digits with up to six decimals.
DollarsInput: TypeAlias = Annotated[
    str,
    BeforeValidator(_parse_dollars, json_schema_input_type=str | float),
    AfterValidator(_check_dollars),
    Field(description="US dollars, with up to six decimals.", examples=["2.50"]),
]


def show_dollars(amount_credits: int) -> str:
    """Show millionths of a dollar as dollars, exactly and without an exponent."""
    return f"{Decimal(amount_credits).scaleb(CREDITS_PER_USD_EXPONENT).normalize():f}"


def read_credits(dollars: str) -> int:
    """Convert exact dollars to credits (millionths)."""
    return int(Decimal(dollars).scaleb(-CREDITS_PER_USD_EXPONENT))


# A row of the database holds whole credits; they become dollars.
Dollars: TypeAlias = Annotated[
    str,
    Field(description="US dollars, exactly.", examples=["2.5"], pattern=r"^-?\d+(\.\d+)?$"),
    BeforeValidator(lambda value: show_dollars(value) if isinstance(value, int) else value),
]


ModelName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[^\s/\x00]+/[^\s\x00]+$", max_length=200),
    Field(examples=["offline/architect"]),
]


class Author(ResponseBody):
    """The user who wrote something."""

    user_id: UUID
    name: str | None = Field(description="Null if the user is not a member any more.")


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    """One page of a list."""

    model_config = ConfigDict(defer_build=True)

    items: list[T]
    next_cursor: str | None = Field(
        description="Send it as `cursor` to get the next page; null on the last page."
    )
    cursor: str | None = Field(
        default=None,
        description="Continue the event stream here: send it to it as `after`. Null if the list is "
        "not followed.",
    )
