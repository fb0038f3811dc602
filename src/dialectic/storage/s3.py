"""Files as objects in a bucket, on Amazon S3 or a compatible server.

An object is written as a whole or not at all; the last writer wins. Requests run in our own
threads, each with a timeout, and end before the program does: a process that exited during timed
out requests was seen to abort (ADR 20). The library retries once after an error that came quickly,
because the server may have closed a kept-alive connection; all other retries are the caller's.

Errors: the library returns one text, which contains the server's code and status, or the network
error. Messages use only those; the rest may name a key. Every error is treated as temporary:
someone can create the bucket or grant a permission while files wait.

Knows keys and bytes, not what they mean.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from dialectic.core.bucket import Bucket
from dialectic.errors import NotFound, StorageUnavailable
from dialectic.storage.keys import (
    ID_NAME,
    PARTS_MIN,
    Keys,
    check_key,
    check_prefix,
    is_part,
    parse_id,
)

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3Store

_CODE = re.compile(r"<Code>\s*(\w{1,80})\s*</Code>")
_STATUS = re.compile(r"status code: (\d{3})\b")

NO_BUCKET = "NoSuchBucket"
NOT_IMPLEMENTED = "NotImplemented"
_KEY = (
    "Correct DIALECTIC_STORAGE_ACCESS_KEY_ID and DIALECTIC_STORAGE_SECRET_ACCESS_KEY, or create a"
    " new key."
)
_RIGHTS = (
    "Allow the key to list the bucket and to get, put and delete its objects; without the"
    " list permission, a server may report a missing object like this."
)
_REGION = "Set DIALECTIC_STORAGE_REGION to the bucket's region."
_LATER = "This is usually temporary; waiting files are retried."
_SESSION = "Set DIALECTIC_STORAGE_SESSION_TOKEN again, together with its keys."

# By S3 error code.
_REMEDIES = {
    NO_BUCKET: "Create the bucket, or correct DIALECTIC_STORAGE_URL.",
    "InvalidBucketName": "Correct DIALECTIC_STORAGE_URL.",
    "InvalidAccessKeyId": _KEY,
    "SignatureDoesNotMatch": _KEY,
    "InvalidToken": _SESSION,
    "ExpiredToken": _SESSION,
    "AccessDenied": _RIGHTS,
    "AllAccessDisabled": _RIGHTS,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "RequestTimeTooSkewed": "Correct the clock of this machine.",
    "EntityTooLarge": "Configure the server to accept larger objects.",
    "QuotaExceeded": "Raise the quota, or free some space.",
    "XMinioStorageFull": "Free some space on the server.",
    "SlowDown": _LATER,
    "ServiceUnavailable": _LATER,
    "InternalError": _LATER,
}
_BY_STATUS = {
    301: _REGION,
    401: _KEY,
    403: f"{_KEY} {_RIGHTS}",
    404: _REMEDIES[NO_BUCKET],
    429: _LATER,
    507: "Free some space on the server.",
}

# The library's words for network errors, the most specific first.
_ON_THE_WAY = (
    ("dns error", "its name does not resolve"),
    ("CertificateExpired", "its certificate has expired"),
    ("Expired", "its certificate has expired"),
    ("UnknownIssuer", "its certificate is not signed by a trusted authority"),
    ("NotValidForName", "its certificate is for another name"),
    ("InvalidCertificate", "its certificate is not valid"),
    ("InvalidContentType", "it does not speak https, perhaps only http"),
    ("Connection refused", "it refused the connection"),
    ("unreachable", "it is unreachable"),
    ("kind: Timeout", "it did not answer in time"),
    ("TimedOut", "it did not answer in time"),
)
_AT_ENDPOINT = "Check that the server runs and that DIALECTIC_STORAGE_ENDPOINT is correct."


def find_code(text: str) -> str | None:
    """Find the server's error code, if it sent one."""
    found = _CODE.search(text)
    return found[1] if found else None


def describe_failure(text: str) -> str:
    """Turn the library's words into what went wrong and what to do."""
    code, status = find_code(text), _STATUS.search(text)
    if code is not None:
        remedy = _REMEDIES.get(code, "Check the server's log.")
        return f"the server says {code}. {remedy}"
    if status is not None:
        number = int(status[1])
        remedy = _BY_STATUS.get(number, _LATER if number >= 500 else "Check the server's log.")
        return f"the server answers with status {number}. {remedy}"
    reason = next((words for sign, words in _ON_THE_WAY if sign in text), "or it does not speak S3")
    return f"the server does not answer: {reason}. {_AT_ENDPOINT}"


THREADS_MAX = 16
RETRIES_MAX = 1
RETRY_AFTER = timedelta(milliseconds=50)
# Larger files are uploaded in parts, which become one object when the last has arrived.
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 2
STREAM_BYTES = 1024 * 1024
# The limits of the protocol.
NAME_BYTES_MAX = 1_024
LINK_EXPIRES_MAX = timedelta(days=7)
IDENTIFY_ATTEMPTS_MAX = 5

_CONTENT_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "zip": "application/zip",
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The timeouts for a server."""

    connect_max: timedelta = timedelta(seconds=5)
    # How long a request may be silent, and how long an active request may take.
    silence_max: timedelta = timedelta(seconds=10)
    request_max: timedelta = timedelta(minutes=10)
    # Retry only an error that came at once.
    retry_within: timedelta = timedelta(seconds=2)


PATIENCE = RetryPolicy()


class ObjectStore:
    """Files in one folder of a bucket. An empty folder is an empty store."""

    def __init__(self, bucket: Bucket, patience: RetryPolicy = PATIENCE) -> None:
        self._bucket = bucket
        self._store = _open_bucket(bucket, patience)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="objects")

    async def write(self, key: str, data: bytes) -> None:
        check_key(key)
        await self._run(key, lambda: self._write(key, data))

    async def write_file(self, key: str, source: Path) -> None:
        check_key(key)
        await self._run(key, lambda: self._write(key, source))

    async def read(self, key: str) -> bytes:
        check_key(key)
        return await self._run(key, lambda: self._store.get(key).bytes().to_bytes())

    async def stream(self, key: str) -> AsyncIterator[bytes]:
        check_key(key)
        parts = await self._run(key, lambda: iter(self._store.get(key).stream(STREAM_BYTES)))
        while (part := await self._run(key, lambda: next(parts, None))) is not None:
            yield bytes(part)

    async def list(self, prefix: str) -> Keys:
        folder = "/".join(check_prefix(prefix))
        return await self._run(prefix, lambda: self._list(folder))

    async def delete(self, key: str) -> None:
        check_key(key)
        await self._run(key, lambda: self._delete(key))

    def locate(self, key: str) -> str:
        check_key(key)
        return f"{self._bucket.address}/{key}"

    def build_link(self, key: str, expires_s: float, /) -> str | None:
        import obstore

        check_key(key)
        expires = min(timedelta(seconds=expires_s), LINK_EXPIRES_MAX)
        return obstore.sign(self._store, "GET", key, expires)

    async def identify(self, wanted: UUID | None) -> UUID | None:
        return await self._run(ID_NAME, lambda: self._identify(wanted))

    @property
    def place(self) -> str:
        return f"{self._bucket.address} at {self._bucket.endpoint}"

    @property
    def id_name(self) -> str:
        return ID_NAME

    async def _run(self, key: str, work: Callable[[], Result]) -> Result:
        from obstore.exceptions import BaseError

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except FileNotFoundError as error:
            if find_code(str(error)) != NO_BUCKET:
                raise NotFound(
                    f"File {key!r} was not found in storage.", reason="no_file", subject=key
                ) from None
            raise self._translate(key, error) from None
        except (BaseError, OSError, ValueError) as error:
            # Without the library's text: it repeats the server's words, which may contain secrets.
            raise self._translate(key, error) from None

    def _translate(self, key: str, error: Exception) -> StorageUnavailable:
        place = f"{self._bucket.address}/{key}".removesuffix("/")
        if isinstance(error, _Failure):
            return StorageUnavailable(
                f"{place} cannot be used: {error}", reason=error.reason, subject=place
            )
        trouble = describe_failure(str(error))
        return StorageUnavailable(
            f"{place} at {self._bucket.endpoint} cannot be used: {trouble}",
            reason="refused",
            subject=place,
        )

    def _write(self, key: str, data: bytes | Path) -> None:
        name_bytes = len(f"{self._bucket.prefix}/{key}".encode())
        if name_bytes > NAME_BYTES_MAX:
            raise _Failure(
                f"its name has {name_bytes} bytes; {NAME_BYTES_MAX} are allowed. Choose a"
                " shorter folder in DIALECTIC_STORAGE_URL.",
                "name_too_long",
            )
        kind = _CONTENT_TYPES.get(key.rpartition(".")[2], "application/octet-stream")
        try:
            self._store.put(
                key,
                data,
                attributes={"Content-Type": kind},
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        except FileNotFoundError as error:
            # Only the bucket itself can be missing.
            raise _Failure(describe_failure(str(error)), "refused") from None

    def _list(self, folder: str) -> Keys:
        found = [meta["path"] for page in self._store.list(folder or None) for meta in page]
        # A bucket may contain other objects: ignore them.
        return sorted(key for key in found if _is_key(key))

    def _delete(self, key: str) -> None:
        try:
            self._store.delete(key)
        except FileNotFoundError as error:
            if find_code(str(error)) == NO_BUCKET:
                raise

    # -- identity ----------------------------------------------------------------------------------

    def _identify(self, wanted: UUID | None) -> UUID | None:
        """Find the id; without one, write the wanted id unless another process just did.

        A server with conditional writes lets one writer win. Without them the last writer wins, so
        the id is read again afterwards; a writer that still lost finds out at the next start.
        """
        for _ in range(IDENTIFY_ATTEMPTS_MAX):
            found = self._find_id()
            if found is not None or wanted is None:
                return found
            self._propose_id(wanted)
        raise _Failure(
            f"its {ID_NAME} keeps disappearing. Find out what deletes it.", "id_vanishes"
        )

    def _find_id(self) -> UUID | None:
        try:
            text = self._store.get(ID_NAME).bytes().to_bytes()
        except FileNotFoundError as error:
            if find_code(str(error)) == NO_BUCKET:
                raise
            return None
        found = parse_id(text)
        if found is None:
            raise _Failure("It does not contain the id of this store.", "no_id")
        return found

    def _propose_id(self, wanted: UUID) -> None:
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        data = f"{wanted}\n".encode()
        try:
            self._store.put(ID_NAME, data, mode="create")
        except (AlreadyExistsError, PreconditionError):
            return
        except BaseError as error:
            if find_code(str(error)) != NOT_IMPLEMENTED:
                raise
            self._store.put(ID_NAME, data)


class _Failure(ValueError):
    """A problem that we found ourselves."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def _is_key(path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= PARTS_MIN and all(map(is_part, parts))


def _open_bucket(bucket: Bucket, patience: RetryPolicy) -> S3Store:
    # Imported here: it takes 0.1 s that a store on a disk need not pay.
    from obstore.store import S3Store

    access = bucket.access

    def reveal() -> S3Credential:
        return {
            "access_key_id": bucket.key_id.reveal(),
            "secret_access_key": bucket.key.reveal(),
            "token": access.session_token.reveal() if access.session_token else None,
            "expires_at": None,
        }

    return S3Store(
        bucket.name,
        prefix=bucket.prefix or None,
        # Set everything that the library would otherwise read from environment variables.
        config={
            "endpoint": bucket.endpoint,
            "aws_endpoint_url_s3": bucket.endpoint,
            "region": access.region,
            "virtual_hosted_style_request": not access.is_path_style,
            "skip_signature": False,
            "unsigned_payload": False,
            "s3_express": False,
            # Not all servers support bulk deletion, and we delete one object at a time.
            "disable_bulk_delete": True,
        },
        client_options={
            "allow_http": access.allows_http,
            "connect_timeout": patience.connect_max,
            "read_timeout": patience.silence_max,
            "timeout": patience.request_max,
        },
        retry_config={
            "max_retries": RETRIES_MAX,
            "retry_timeout": patience.retry_within,
            "backoff": {"init_backoff": RETRY_AFTER, "max_backoff": RETRY_AFTER, "base": 2},
        },
        # Set it this way, or a session token from the environment would be sent along with our key.
        credential_provider=reveal,
    )
