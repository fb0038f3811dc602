"""The tree of errors: what failed, and what happens to the job that raised it.

DialecticError                code, HTTP status, exit code, fate
├── UsageError                the caller's request is invalid or not allowed
│   ├── Unauthenticated       the caller is unknown
│   │   ├── TokenMissing
│   │   ├── TokenInvalid      unknown or revoked: the response does not say which
│   │   └── TokenExpired
│   ├── Forbidden             the caller is known but lacks permission
│   ├── NotFound
│   ├── TooLarge              a text or a request body exceeds its size limit
│   ├── InvalidValue          a value cannot be stored
│   ├── InvalidCursor         the cursor does not belong to this list
│   ├── UnknownModel          the model is not in the catalogue
│   ├── Conflict
│   │   ├── IllegalMove       the job table does not allow this change of status
│   │   └── InProgress        the same request is already being processed
│   ├── PreconditionFailed    the resource changed after the caller read it
│   ├── KeyReused             an Idempotency-Key was reused for another request
│   ├── ForbiddenAddress      the server may not call this address for a tenant
│   ├── InvalidProcess        a process file breaks a rule
│   ├── TooManyStreams        one tenant has too many event streams open
│   ├── TooManyUploads        one tenant has too many uploads in progress
│   ├── InvalidBundle         the archive is not a project export, or cannot be imported
│   └── InvalidUpload         the uploaded file has no readable text
│       └── UploadTooLarge    the file or its text exceeds the upload limit
├── ConfigurationError        settings, files or servers that the operator must fix
│   ├── KeyMissing            an endpoint's API key is not set: the job waits for it
│   ├── DatabaseUnreachable
│   ├── DatabaseFull          PostgreSQL is out of disk or memory: the job waits
│   ├── SchemaChanged         another version upgraded the database while this one ran
│   ├── SchemaOutdated        the database is too old for this version to upgrade
│   ├── EmbeddedServerError
│   ├── ServerUnreachable     the client's server does not answer
│   ├── StorageMismatch       the database's documents are in another storage
│   └── StorageUnavailable
├── TooManyRequests           the token exceeded its rate limit
├── ServerBusy                the server is handling its maximum number of uploads
├── DatabaseBusy              a temporary database failure: the job is retried
├── EndpointBusy              the endpoint's rate limits allow no call yet: the job waits
│   ├── CircuitOpen           the endpoint keeps failing: only probes may call it
│   └── TextBusy              another job is compressing the text that this one needs
├── FundsError                the wallet or the budget does not cover the call
│   └── SpendNeedsApproval    one call would exceed the automatic spending limit
├── ContextWindowError        the prompt does not fit even after compression
├── ProviderError             the provider failed; each subclass sets its fate
│   ├── ProviderTransient · ProviderThrottled · ProviderMalformed · StreamTruncated      retry
│   ├── ProviderQuota                                                                   pause
│   └── ProviderAuth · ProviderRejected · ProviderFiltered                              fail
├── InvalidPayload            a job's payload does not parse: only that job fails
├── PlanError                 the planner found no work, or too much
├── ApiError                  the server returned an error unknown to the client
│   └── ApiRefusal            a 4xx: the caller must change the request
└── LeaseLost                 another worker has the job: write nothing, report nothing

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
    ITERATE = "iterate"
    WATCH = "watch"
    START_SESSION = "start_session"
    # Money.
    TOP_UP = "top_up"
    SHOW_COSTS = "show_costs"
    # Look up the right name.
    QUOTE_RUN = "quote_run"
    CHOOSE_MODEL = "choose_model"
    LIST_SESSIONS = "list_sessions"
    LIST_CONTRIBUTIONS = "list_contributions"
    LIST_JOBS = "list_jobs"
    LIST_CHATS = "list_chats"
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
    model: str | None = None
    scope: str | None = None
    user: str | None = None
    setting: str | None = None
    is_play: bool | None = None

    def as_dict(self) -> dict[str, Any]:
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
        RemedyAction.ITERATE,
        RemedyAction.WATCH,
        RemedyAction.SHOW_COSTS,
        RemedyAction.LIST_CONTRIBUTIONS,
        RemedyAction.LIST_JOBS,
    }
)


def read_remedy(value: object) -> Remedy | None:
    """Read a remedy from JSON; None if it is missing or its action is unknown here."""
    if not isinstance(value, Mapping):
        return None
    known: dict[str, Any] = {name: value.get(name) for name in Remedy.__dataclass_fields__}
    if known["action"] not in set(RemedyAction):
        return None
    known["action"] = RemedyAction(known["action"])
    return Remedy(**known)


class Facts(TypedDict, total=False):
    """Machine-readable details that every error accepts."""

    remedy: Remedy | None
    reason: str | None
    subject: str | None
    limit: int | None


class DialecticError(Exception):
    """Dialectic could not complete the operation."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    fate: ClassVar[Fate] = Fate.FAIL
    # The default next step; an instance may override it.
    remedy: Remedy | None = None

    def __init__(
        self,
        message: str | None = None,
        *,
        remedy: Remedy | None = None,
        reason: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message or self.__doc__)
        if remedy is not None:
            self.remedy = remedy
        # Distinguishes the cases of one code; stays the same when the message is reworded.
        self.reason = reason
        # The field, option, setting, file or id at fault.
        self.subject = subject
        # The largest value that would have been accepted.
        self.limit = limit

    @property
    def message(self) -> str:
        return str(self.args[0])


class UsageError(DialecticError):
    """The request is invalid."""

    code = "invalid_request"
    status = 400
    exit_code = ExitCode.USAGE


class Unauthenticated(UsageError):
    """Authentication failed."""

    code = "unauthenticated"
    status = 401


class TokenMissing(Unauthenticated):
    """A token is required. Send `Authorization: Bearer dlk_…`."""

    code = "token_missing"
    remedy = Remedy(RemedyAction.CREATE_TOKEN)


class TokenInvalid(Unauthenticated):
    """The token is not valid."""

    code = "token_invalid"
    remedy = Remedy(RemedyAction.CREATE_TOKEN)


class TokenExpired(Unauthenticated):
    """The token has expired."""

    code = "token_expired"
    remedy = Remedy(RemedyAction.CREATE_TOKEN)


class Forbidden(UsageError):
    """This token or user lacks permission."""

    code = "forbidden"
    status = 403


class NotFound(UsageError):
    """Not found, or not visible to this account."""

    code = "not_found"
    status = 404


class TooLarge(UsageError):
    """The request is too large."""

    code = "too_large"
    status = 413


class InvalidValue(UsageError):
    """A value cannot be stored."""

    code = "invalid_value"
    status = 422


class InvalidCursor(UsageError):
    """The cursor does not belong to this list."""

    code = "invalid_cursor"
    status = 422


class UnknownModel(UsageError):
    """The model is not in the catalogue."""

    code = "unknown_model"
    status = 422
    remedy = Remedy(RemedyAction.CHOOSE_MODEL)


class Conflict(UsageError):
    """The resource's current state does not allow this."""

    code = "conflict"
    status = 409


class IllegalMove(Conflict):
    """The state of the job or session does not allow this change."""

    code = "illegal_move"


class InProgress(Conflict):
    """The same request is already being processed. Retry it shortly."""

    code = "in_progress"
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class PreconditionFailed(UsageError):
    """The resource has changed since you read it. Read it again."""

    code = "precondition_failed"
    status = 412


class KeyReused(UsageError):
    """The Idempotency-Key was used for another request. Use a new key."""

    code = "idempotency_key_reused"
    status = 422


class ForbiddenAddress(UsageError):
    """The server may not call this address."""

    code = "forbidden_address"
    status = 422


class InvalidProcess(UsageError):
    """The process file is invalid."""

    code = "invalid_process"
    status = 422


class TooManyStreams(UsageError):
    """Too many event streams are open."""

    code = "too_many_streams"
    status = 429
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class TooManyUploads(UsageError):
    """Too many uploads are in progress."""

    code = "too_many_uploads"
    status = 429
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class InvalidBundle(UsageError):
    """The archive is not a project export, or cannot be imported."""

    code = "invalid_bundle"
    status = 422


class InvalidUpload(UsageError):
    """The file has no readable text."""

    code = "invalid_upload"
    status = 422


class UploadTooLarge(InvalidUpload):
    """The file or its text exceeds the upload limit."""

    code = "upload_too_large"
    status = 413


class ConfigurationError(DialecticError):
    """The configuration is invalid."""

    code = "configuration"
    status = 503
    exit_code = ExitCode.CONFIGURATION


class KeyMissing(ConfigurationError):
    """The API key of a model's endpoint is not set."""

    code = "key_missing"
    fate = Fate.PAUSE


class DatabaseUnreachable(ConfigurationError):
    """The database does not answer."""

    code = "database_unreachable"
    remedy = Remedy(RemedyAction.CHECK_SETUP)
    fate = Fate.DROP  # nothing can be written; the lease expires


class DatabaseFull(ConfigurationError):
    """The database is out of disk space or memory."""

    code = "database_full"
    fate = Fate.PAUSE


class SchemaChanged(ConfigurationError):
    """Another version of Dialectic has upgraded the database."""

    code = "schema_changed"
    fate = Fate.DROP  # a worker of the new version claims the job


class SchemaOutdated(ConfigurationError):
    """The database is too old for this version to upgrade."""

    code = "schema_outdated"


class EmbeddedServerError(ConfigurationError):
    """The embedded PostgreSQL server cannot run."""

    code = "embedded_server"


class ServerUnreachable(ConfigurationError):
    """The server does not answer."""

    code = "server_unreachable"


class StorageMismatch(ConfigurationError):
    """The documents of this database are in another storage."""

    code = "storage_mismatch"


class StorageUnavailable(ConfigurationError):
    """The document storage cannot be read or written."""

    code = "storage_unavailable"
    fate = Fate.PAUSE


class TooManyRequests(DialecticError):
    """This token has exceeded its rate limit."""

    code = "too_many_requests"
    status = 429
    fate = Fate.RETRY
    remedy = Remedy(RemedyAction.TRY_AGAIN)

    def __init__(
        self, message: str | None = None, *, retry_after_s: float = 1.0, **facts: Unpack[Facts]
    ) -> None:
        super().__init__(message, **facts)
        self.retry_after_s = retry_after_s


class ServerBusy(DialecticError):
    """The server is too busy for this request."""

    code = "server_busy"
    status = 503
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class DatabaseBusy(DialecticError):
    """The database is too busy for this request."""

    code = "database_busy"
    status = 503
    fate = Fate.RETRY
    remedy = Remedy(RemedyAction.TRY_AGAIN)


class EndpointBusy(DialecticError):
    """The endpoint's rate limits allow no call yet."""

    code = "endpoint_busy"
    status = 503
    fate = Fate.RETRY
    remedy = Remedy(RemedyAction.TRY_AGAIN)

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


class CircuitOpen(EndpointBusy):
    """The endpoint keeps failing; calls to it are blocked."""

    code = "circuit_open"


class TextBusy(EndpointBusy):
    """Another job is compressing the text that this job needs."""

    code = "text_busy"


class FundsError(DialecticError):
    """The wallet or the budget does not cover this call."""

    code = "insufficient_funds"
    status = 402
    exit_code = ExitCode.FUNDS
    fate = Fate.PAUSE

    def __init__(
        self,
        message: str | None = None,
        *,
        is_held_by_others: bool = False,
        needed_credits: int | None = None,
        is_play: bool = False,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # Calls in flight have reserved the money: what they release may be enough.
        self.is_held_by_others = is_held_by_others
        # The amount that was missing, and whether it is play money.
        self.needed_credits = needed_credits
        self.is_play = is_play


class SpendNeedsApproval(FundsError):
    """The call exceeds the automatic spending limit."""

    code = "spend_needs_approval"


class ContextWindowError(DialecticError):
    """The prompt does not fit the model's context window, even compressed."""

    code = "context_window_exceeded"
    status = 413

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
    raw: dict[str, Any] | None = None


class ProviderError(DialecticError):
    """The model's provider failed."""

    code = "provider_error"
    status = 502
    fate = Fate.RETRY

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


class ProviderTransient(ProviderError):
    """The provider did not answer, or is temporarily unavailable."""

    code = "provider_transient"


class ProviderThrottled(ProviderError):
    """The provider's rate limit was reached."""

    code = "provider_throttled"


class ProviderMalformed(ProviderError):
    """The provider's response is malformed."""

    code = "provider_malformed"


class StreamTruncated(ProviderError):
    """The provider's stream ended before the answer was complete."""

    code = "stream_truncated"


class ProviderQuota(ProviderError):
    """The provider account has no credit or quota left."""

    code = "provider_quota"
    fate = Fate.PAUSE


class ProviderAuth(ProviderError):
    """The provider rejected the API key."""

    code = "provider_auth"
    fate = Fate.FAIL


class ProviderRejected(ProviderError):
    """The provider rejected the request."""

    code = "provider_rejected"
    fate = Fate.FAIL


class ProviderFiltered(ProviderError):
    """The model or a content filter refused to answer."""

    code = "provider_filtered"
    fate = Fate.FAIL


class InvalidPayload(DialecticError):
    """The job's payload does not match its type."""

    code = "invalid_payload"


class PlanError(DialecticError):
    """The plan has no jobs, or too many."""

    code = "plan_error"


class LeaseLost(DialecticError):
    """Another worker has taken over this job."""

    code = "lease_lost"
    status = 409
    fate = Fate.DROP


class ApiError(DialecticError):
    """The server returned an error that this client does not know."""

    code = "api_error"

    def __init__(
        self,
        message: str | None = None,
        *,
        problem: dict[str, Any] | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        super().__init__(message, **facts)
        # The problem document that the server returned.
        self.problem = problem or {}


class ApiRefusal(ApiError):
    """The server rejected the request with an error that this client does not know."""

    code = "api_refusal"
    status = 400
    exit_code = ExitCode.USAGE
