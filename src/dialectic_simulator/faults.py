"""The faults by name, loaded from `faults.toml`: the wires each applies to, and what happens."""

from __future__ import annotations

import tomllib
from importlib.resources import files

from pydantic import BaseModel

from dialectic_simulator.conversation import FinishForm, Shape, TroubleKind, WireName

NO_FAULT = "none"
EVERY_WIRE = frozenset(WireName)


class Fault(BaseModel, frozen=True, extra="forbid"):
    """One fault. At most one of the last groups of fields says how it is produced."""

    name: str
    number: int
    what: str
    wires: frozenset[WireName] = EVERY_WIRE
    streams_only: bool = False
    vectors_only: bool = False
    # Also applies to calls that request no text.
    any_route: bool = False
    # Rejects the call, or answers 200 with the error inside.
    trouble: TroubleKind | None = None
    retry_after: str | None = None
    is_status_ok: bool = False
    # Changes the answer before it is written in a vendor's format.
    shape: Shape = Shape.PLAIN
    finish_form: FinishForm = FinishForm.WORD
    # `response` and `stream_damage` produce all other faults by name.

    @property
    def is_for_any_route(self) -> bool:
        return self.any_route or self.vectors_only or self.trouble is not None


_ROWS = tomllib.loads(files(__package__).joinpath("faults.toml").read_text("utf-8"))
TABLE: tuple[Fault, ...] = tuple(Fault(name=name, **row) for name, row in _ROWS.items())
FAULTS: dict[str, Fault] = {fault.name: fault for fault in TABLE}
