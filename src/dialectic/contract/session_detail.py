"""All stored data of a session, as records. Pure.

Short commands read it, so it imports no requests.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field, computed_field

from dialectic.contract.base import ResponseBody
from dialectic.contract.contributions import ContributionLine, JobRecord
from dialectic.contract.quotes import WorkQuote
from dialectic.contract.summaries import STATUS_TEXT
from dialectic.core.documents.shortcomings import describe_all
from dialectic.core.seats import describe_seat
from dialectic.core.session_state import SessionState


class SessionRecord(ResponseBody):
    """All stored data of a session, with the names of its columns."""

    id: UUID
    project_id: UUID
    project_name: str
    project_slug: str
    user_id: UUID
    wallet_id: UUID
    session_description: str
    status: str
    current_stage_slug: str
    until_stage_slug: str
    iteration_count: int
    selected_model_ids: list[UUID]
    model_names: list[str]
    dropped_seats: list[int]
    lead_model_index: int
    is_autopilot: bool
    pause_on_dissent: bool
    continue_until_complete: bool
    wait_for_all: bool
    max_output_tokens: int | None
    full_answers_only: bool
    max_retries: int
    process_template_id: UUID
    process_name: str
    content_hash: str
    budget_credits: int | None
    spent_credits: int
    play_spent_credits: int
    created_at: datetime

    @property
    def state(self) -> SessionState:
        """The stage and the phase that the status shows."""
        return SessionState.parse(self.status, self.current_stage_slug)

    @computed_field(description=STATUS_TEXT)  # type: ignore[prop-decorator]
    @property
    def status_text(self) -> str:
        return self.state.describe(self.until_stage_slug)


class StageRecord(ResponseBody):
    """All stored data of one stage of one iteration."""

    stage_slug: str
    iteration_number: int
    status: str
    planned_units: int
    finished_units: int
    seats: list[int]
    lost_seats: list[int]
    started_at: datetime | None
    completed_at: datetime | None


class PlanSource(ResponseBody):
    """Whose checklist a complete stage has put into Pending/."""

    stage_slug: str
    iteration_number: int
    model_name: str | None = Field(description="Null if no model wrote a checklist.")
    is_lead: bool


class SessionDetail(ResponseBody):
    """All stored data of a session, as records."""

    session: SessionRecord
    stages: list[StageRecord]
    jobs: list[JobRecord]
    contributions: list[ContributionLine]
    plans: list[PlanSource] = Field(
        description="For each complete stage that promises a checklist: whose it is."
    )
    last_event: int = Field(description="The number of the newest event.")
    cursor: str = Field(
        default="", description="Continue the event stream here: send it to it as `after`."
    )
    has_news: bool = Field(description="Whether the session has an event later than `after`.")
    quote: WorkQuote | None = Field(description="The remaining work, if requested.")

    def list_warnings(self) -> list[str]:
        """List what the documents of the current iteration lack, in sentences."""
        number = self.session.iteration_count
        shortcomings = describe_all(
            [one for one in self.contributions if one.iteration_number == number],
            [plan for plan in self.plans if plan.iteration_number == number],
        )
        return [*self._describe_lost_seats(), *shortcomings]

    def _describe_lost_seats(self) -> list[str]:
        """Describe whose documents are absent from stages that have those of others."""
        number, lacking = self.session.iteration_count, dict[int, list[str]]()
        written = {one.stage for one in self.contributions if one.iteration_number == number}
        for stage in self.stages:
            if stage.iteration_number == number and stage.stage_slug in written:
                for seat in stage.lost_seats:
                    lacking.setdefault(seat, []).append(stage.stage_slug)
        return [
            f"{describe_seat(seat, self.session.model_names[seat - 1])} has no part in "
            f"{', '.join(stages)}; the documents are by the other seats."
            for seat, stages in sorted(lacking.items())
        ]
