"""Every error: what failed, and what happens to the job that raised it.

A class states its code, HTTP status, exit code, fate and remedy; it inherits what it does not
state. The branches of the tree:

UsageError            the caller's request is invalid or not allowed
ConfigurationError    settings, files or servers that the operator must fix
EndpointBusy          an endpoint or a text is in use: the job waits
FundsError            the wallet or the budget does not cover the call
ProviderError         the provider failed
ApiError              the server returned an error unknown to the client

A message says what failed, where, and why. It names no command: the `remedy` holds the next step,
which the command line shows as a command and the API as a field. Programs and tests use `code`,
`reason`, `subject` and `limit`, never the message. Messages never hold keys or document text.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypedDict, Unpack


class Fate(enum.Enum):
    """What happens to a job that raised an error."""

    RETRY = "retry"
    PAUSE = "pause"
    FAIL = "fail"
    DROP = "drop"


class ExitCode(enum.IntEnum):
    """The exit codes of the command line."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    WAITING = 3
    CONFIGURATION = 4
    FUNDS = 5
    INTERRUPTED = 130


class RemedyAction(enum.StrEnum):
    """The next step after an error. Part of the API: values are added, never changed."""

    TRY_AGAIN = "try_again"  # send the same request later
    # Continue a session.
    RESUME = "resume"
    APPROVE_SPEND = "approve_spend"
    RAISE_BUDGET = "raise_budget"
    RETRY = "retry"  # run the failed jobs again
    START_NEXT = "start_next"  # the next stage, after feedback on the last one
    ITERATE = "iterate"
    WATCH = "watch"
    DROP_SEAT = "drop_seat"  # go on without a model
    REPLACE_SEAT = "replace_seat"  # go on with another model in its place
    START_SESSION = "start_session"
    # Money.
    TOP_UP = "top_up"
    SHOW_COSTS = "show_costs"
    # Look up the right name.
    QUOTE_RUN = "quote_run"
    CHOOSE_MODEL = "choose_model"
    CHOOSE_DEFAULTS = "choose_defaults"  # store the models of runs that name none
    ADD_ENDPOINT = "add_endpoint"
    LIST_ENDPOINTS = "list_endpoints"
    LIST_SESSIONS = "list_sessions"
    LIST_CONTRIBUTIONS = "list_contributions"
    LIST_JOBS = "list_jobs"
    LIST_CHATS = "list_chats"
    LIST_NOTIFICATIONS = "list_notifications"
    LIST_USERS = "list_users"
    LIST_TOKENS = "list_tokens"
    LIST_ORGANIZATIONS = "list_organizations"
    # For the operator.
    CREATE_TOKEN = "create_token"  # noqa: S105  not a secret
    ADD_USER = "add_user"
    CONFIGURE = "configure"
    CHECK_SETUP = "check_setup"
    MIGRATE_DATABASE = "migrate_database"


@dataclass(frozen=True, slots=True)
class Remedy:
    """The next step after an error, for programs: an action and its parameters."""

    action: RemedyAction
    session_id: str | None = None
    seat: int | None = None
    model: str | None = None
    endpoint: str | None = None
    scope: str | None = None
    user: str | None = None
    setting: str | None = None
    is_play: bool | None = None

    def as_dict(self) -> dict[str, str | int]:
        """Convert to JSON: the action, and the parameters that are set."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def for_session(self, session_id: object) -> Remedy:
        """Fill in the session if the action needs one and none is set."""
        if self.action not in ABOUT_A_SESSION or self.session_id is not None:
            return self
        return replace(self, session_id=str(session_id))


ABOUT_A_SESSION = frozenset(
    {
        RemedyAction.RESUME,
        RemedyAction.APPROVE_SPEND,
        RemedyAction.RAISE_BUDGET,
        RemedyAction.RETRY,
        RemedyAction.START_NEXT,
        RemedyAction.ITERATE,
        RemedyAction.WATCH,
        RemedyAction.DROP_SEAT,
        RemedyAction.REPLACE_SEAT,
        RemedyAction.SHOW_COSTS,
        RemedyAction.LIST_CONTRIBUTIONS,
        RemedyAction.LIST_JOBS,
    }
)


def read_remedy(value: object) -> Remedy | None:
    """Read a remedy from JSON; None if it is missing or its action is unknown here."""
    if not isinstance(value, Mapping):
        return None
    action = value.get("action")
    if action not in set(RemedyAction):
        return None
    others = {name: value.get(name) for name in Remedy.__dataclass_fields__ if name != "action"}
    return Remedy(RemedyAction(action), **others)


class Facts(TypedDict, total=False):
    """Machine-readable details that every error accepts."""

    remedy: Remedy | None
    # Distinguishes the cases of one code; stays the same when the message is reworded.
    reason: str | None
    # The field, option, setting, file or id at fault.
    subject: str | None
    # The largest value that would have been accepted.
    limit: int | None


class DialecticError(Exception):
    """Dialectic could not complete the operation."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    fate: ClassVar[Fate] = Fate.FAIL
    # The default next step; an instance may override it.
    remedy: Remedy | None = None

    def __init_subclass__(
        cls,
        *,
        code: str,
        status: int | None = None,
        exit_code: ExitCode | None = None,
        fate: Fate | None = None,
        remedy: RemedyAction | None = None,
    ) -> None:
        cls.code = code
        cls.status = status or cls.status
        cls.exit_code = exit_code or cls.exit_code
        cls.fate = fate or cls.fate
        cls.remedy = Remedy(remedy) if remedy else cls.remedy

    def __init__(self, message: str | None = None, **facts: Unpack[Facts]) -> None:
        super().__init__(message or self.__doc__)
        self.remedy = facts.get("remedy") or self.remedy
        self.reason = facts.get("reason")
        self.subject = facts.get("subject")
        self.limit = facts.get("limit")

    @property
    def message(self) -> str:
        return str(self.args[0])


class UsageError(DialecticError, code="invalid_request", status=400, exit_code=ExitCode.USAGE):
    """The request is invalid."""


class InvalidJson(UsageError, code="invalid_json"):
    """The body is not valid JSON."""


class Unauthenticated(UsageError, code="unauthenticated", status=401):
    """Authentication failed."""


class TokenMissing(Unauthenticated, code="token_missing", remedy=RemedyAction.CREATE_TOKEN):
    """A token is required. Send `Authorization: Bearer dlk_…`."""


class TokenInvalid(Unauthenticated, code="token_invalid", remedy=RemedyAction.CREATE_TOKEN):
    """The token is not valid."""


class TokenExpired(Unauthenticated, code="token_expired", remedy=RemedyAction.CREATE_TOKEN):
    """The token has expired."""


class Forbidden(UsageError, code="forbidden", status=403):
    """This token or user lacks permission."""


class CsrfInvalid(Forbidden, code="csrf_invalid"):
    """The request lacks the CSRF token of our own pages."""


class NotFound(UsageError, code="not_found", status=404):
    """Not found, or not visible to this account."""


class TooLarge(UsageError, code="too_large", status=413):
    """The request is too large."""


class InvalidValue(UsageError, code="invalid_value", status=422):
    """A value cannot be stored."""


class InvalidCursor(UsageError, code="invalid_cursor", status=422):
    """The cursor does not belong to this list."""


class UnknownModel(UsageError, code="unknown_model", status=422, remedy=RemedyAction.CHOOSE_MODEL):
    """The model is not in the catalogue."""


class Conflict(UsageError, code="conflict", status=409):
    """The resource's current state does not allow this."""


class IllegalMove(Conflict, code="illegal_move"):
    """The state of the job or session does not allow this change."""


class InProgress(Conflict, code="in_progress", remedy=RemedyAction.TRY_AGAIN):
    """The same request is already being processed. Retry it shortly."""


class PreconditionFailed(UsageError, code="precondition_failed", status=412):
    """The resource has changed since you read it. Read it again."""

    def __init__(
        self,
        message: str | None = None,
        *,
        current: Mapping[str, Any] | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # The version that is there now, if it has a name and an author.
        self.current = current


class KeyReused(UsageError, code="idempotency_key_reused", status=422):
    """The Idempotency-Key was used for another request. Use a new key."""


class ForbiddenAddress(UsageError, code="forbidden_address", status=422):
    """The server may not call this address."""


class InvalidProcess(UsageError, code="invalid_process", status=422):
    """The process file is invalid."""


class TooManyStreams(
    UsageError, code="too_many_streams", status=429, remedy=RemedyAction.TRY_AGAIN
):
    """Too many event streams are open."""


class TooManyUploads(
    UsageError, code="too_many_uploads", status=429, remedy=RemedyAction.TRY_AGAIN
):
    """Too many uploads are in progress."""


class InvalidBundle(UsageError, code="invalid_bundle", status=422):
    """The archive is not a project export, or cannot be imported."""


class InvalidRecord(UsageError, code="invalid_record", status=422):
    """The record of a call is damaged, or of an unknown version."""


class InvalidUpload(UsageError, code="invalid_upload", status=422):
    """The file has no readable text."""


class UploadTooLarge(InvalidUpload, code="upload_too_large", status=413):
    """The file or its text exceeds the upload limit."""


class ConfigurationError(
    DialecticError, code="configuration", status=503, exit_code=ExitCode.CONFIGURATION
):
    """The configuration is invalid."""


class KeyMissing(ConfigurationError, code="key_missing", fate=Fate.PAUSE):
    """The API key of a model's endpoint is not set."""


class ModelUnusable(ConfigurationError, code="model_unusable", remedy=RemedyAction.CHOOSE_MODEL):
    """A model does not answer."""


class DatabaseUnreachable(
    ConfigurationError, code="database_unreachable", fate=Fate.DROP, remedy=RemedyAction.CHECK_SETUP
):
    """The database does not answer."""

    # Nothing can be written; the lease expires.


class PoolerUnsupported(ConfigurationError, code="pooler_unsupported", fate=Fate.DROP):
    """The connection pooler in front of the database cannot be used."""

    # What was written may be lost; the lease expires.


class DatabaseFull(ConfigurationError, code="database_full", fate=Fate.PAUSE):
    """The database is out of disk space or memory."""


class SchemaChanged(ConfigurationError, code="schema_changed", fate=Fate.DROP):
    """Another version of Dialectic has upgraded the database."""

    # A worker of the new version claims the job.


class SchemaOutdated(ConfigurationError, code="schema_outdated"):
    """The database is too old for this version to upgrade."""


class EmbeddedServerError(ConfigurationError, code="embedded_server"):
    """The embedded PostgreSQL server cannot run."""


class ServerUnreachable(ConfigurationError, code="server_unreachable"):
    """The server does not answer."""


class StorageMismatch(ConfigurationError, code="storage_mismatch"):
    """The documents of this database are in another storage."""


class StorageUnavailable(ConfigurationError, code="storage_unavailable", fate=Fate.PAUSE):
    """The document storage cannot be read or written."""


class TooManyRequests(
    DialecticError,
    code="too_many_requests",
    status=429,
    fate=Fate.RETRY,
    remedy=RemedyAction.TRY_AGAIN,
):
    """This token has exceeded its rate limit."""

    def __init__(
        self, message: str | None = None, *, retry_after_s: float = 1.0, **facts: Unpack[Facts]
    ) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


class ServerBusy(DialecticError, code="server_busy", status=503, remedy=RemedyAction.TRY_AGAIN):
    """The server is too busy for this request."""


class DatabaseBusy(
    DialecticError, code="database_busy", status=503, fate=Fate.RETRY, remedy=RemedyAction.TRY_AGAIN
):
    """The database is too busy for this request."""


class EndpointBusy(
    DialecticError, code="endpoint_busy", status=503, fate=Fate.RETRY, remedy=RemedyAction.TRY_AGAIN
):
    """The endpoint's rate limits allow no call yet."""

    def __init__(
        self,
        message: str | None = None,
        *,
        wait_s: float = 0.0,
        closed_s: float = 0.0,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # When to retry this job, and for how long the endpoint is closed to every job.
        self.wait_s = wait_s
        self.closed_s = closed_s


class CircuitOpen(EndpointBusy, code="circuit_open"):
    """The endpoint keeps failing; calls to it are blocked."""


class TextBusy(EndpointBusy, code="text_busy"):
    """Another job is compressing the text that this job needs."""


class FundsError(
    DialecticError, code="insufficient_funds", status=402, exit_code=ExitCode.FUNDS, fate=Fate.PAUSE
):
    """The wallet or the budget does not cover this call."""

    def __init__(
        self,
        message: str | None = None,
        *,
        is_held_by_others: bool = False,
        needed_credits: int | None = None,
        left_credits: int | None = None,
        budget_credits: int | None = None,
        awaited_credits: int | None = None,
        is_play: bool = False,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # Calls in flight have reserved the money: what they release may be enough.
        self.is_held_by_others = is_held_by_others
        # What the call may cost, what is left of the limit that it exceeds, the budget if that is
        # the limit, and whether it is play money.
        self.needed_credits = needed_credits
        self.left_credits = left_credits
        self.budget_credits = budget_credits
        self.is_play = is_play
        # The free money with which the call could be made.
        self.awaited_credits = needed_credits if awaited_credits is None else awaited_credits

    @property
    def figures(self) -> dict[str, int | bool | None]:
        """The amounts, for programs."""
        return {
            "needed_credits": self.needed_credits,
            "left_credits": self.left_credits,
            "budget_credits": self.budget_credits,
            "is_play": self.is_play,
        }


class SpendNeedsApproval(FundsError, code="spend_needs_approval"):
    """The call exceeds the automatic spending limit."""


class ContextWindowError(DialecticError, code="context_window_exceeded", status=413):
    """The prompt does not fit the model's context window, even compressed."""

    def __init__(
        self,
        message: str | None = None,
        *,
        had_tokens: int | None = None,
        max_tokens: int | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # The token count and the limit that the provider reported, if it rejected the prompt.
        # Both may include the answer.
        self.had_tokens = had_tokens
        self.max_tokens = max_tokens


@dataclass(frozen=True, slots=True)
class PartialResponse:
    """What remains of a failed call."""

    # The provider may have processed the request, and so may charge for it.
    was_sent: bool = False
    # The text received, and the input and output tokens reported for it, if any.
    partial_text: str = ""
    reported_usage: tuple[int, int] | None = None
    request_id: str | None = None
    # The response, truncated and without secrets, for the audit.
    raw: Mapping[str, object] | None = None


class ProviderError(DialecticError, code="provider_error", status=502, fate=Fate.RETRY):
    """The model's provider failed."""

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_s: float | None = None,
        retries_max: int | None = None,
        remains: PartialResponse | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # The provider's Retry-After value, unchecked.
        self.retry_after_s = retry_after_s
        # The retry limit for this error, where it is lower than the job's.
        self.retries_max = retries_max
        self.remains = remains or PartialResponse()


class ProviderTransient(ProviderError, code="provider_transient"):
    """The provider did not answer, or is temporarily unavailable."""


class ProviderUnreachable(ProviderTransient, code="provider_unreachable"):
    """No connection to the provider could be opened."""


class ProviderThrottled(ProviderError, code="provider_throttled"):
    """The provider's rate limit was reached."""


class ProviderMalformed(ProviderError, code="provider_malformed"):
    """The provider's response is malformed."""


class StreamTruncated(ProviderError, code="stream_truncated"):
    """The provider's stream ended before the answer was complete."""


class ProviderQuota(ProviderError, code="provider_quota", fate=Fate.PAUSE):
    """The provider account has no credit or quota left."""


class ProviderAuth(ProviderError, code="provider_auth", fate=Fate.FAIL):
    """The provider rejected the API key."""


class ProviderRejected(ProviderError, code="provider_rejected", fate=Fate.FAIL):
    """The provider rejected the request."""


class ProviderFiltered(ProviderError, code="provider_filtered", fate=Fate.FAIL):
    """The model or a content filter refused to answer."""


class InvalidPayload(DialecticError, code="invalid_payload"):
    """The job's payload does not match its type."""


class PlanError(DialecticError, code="plan_error"):
    """The plan has no jobs, or too many."""


class LeaseLost(DialecticError, code="lease_lost", status=409, fate=Fate.DROP):
    """Another worker has taken over this job."""


class ApiError(DialecticError, code="api_error"):
    """The server returned an error that this client does not know."""

    def __init__(
        self,
        message: str | None = None,
        *,
        problem: Mapping[str, Any] | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # The problem document that the server returned.
        self.problem = problem or {}


class ApiRefusal(ApiError, code="api_refusal", status=400, exit_code=ExitCode.USAGE):
    """The server rejected the request with an error that this client does not know."""


def describe_code(code: str) -> str:
    """Describe an error by its code alone; a code without an error class stands for itself."""
    return _list_descriptions(DialecticError).get(code, code.replace("_", " "))


def _list_descriptions(kind: type[DialecticError]) -> dict[str, str]:
    found = {kind.code: (kind.__doc__ or "").partition("\n")[0]}
    for each in kind.__subclasses__():
        found = _list_descriptions(each) | found
    return found
