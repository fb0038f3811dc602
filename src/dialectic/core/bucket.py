"""The configuration of an S3 bucket: its address and settings. Pure.

An address may contain a misplaced secret, so no error message repeats one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from dialectic.core.access import Secret
from dialectic.errors import ConfigurationError

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,61}[a-zA-Z0-9]")
_HOST = re.compile(r"[a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]")
_REGION = re.compile(r"[a-zA-Z0-9-]{1,64}")
# The rest of the 1,024 bytes of an object's key is for the document's path.
PREFIX_BYTES_MAX = 200
_PREFIX = re.compile(r"[^\x00-\x1f\x7f\\/]+(?:/[^\x00-\x1f\x7f\\/]+)*")


@dataclass(frozen=True, slots=True)
class BucketAccess:
    """The operator's settings for the bucket's server."""

    endpoint: str = ""
    region: str = "us-east-1"
    is_path_style: bool = True
    allows_http: bool = False
    key_id: Secret | None = None
    key: Secret | None = None
    session_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, our folder in it, and everything needed to access it."""

    name: str
    prefix: str
    # Includes the bucket's name in the host, unless path style is used.
    endpoint: str
    access: BucketAccess
    key_id: Secret
    key: Secret

    @property
    def address(self) -> str:
        return f"s3://{self.name}/{self.prefix}".removesuffix("/")


def parse_bucket(address: SplitResult, access: BucketAccess) -> Bucket:
    """Parse `s3://bucket/prefix` and its settings; reject invalid ones."""
    name, prefix = address.netloc, unquote(address.path).strip("/")
    if NAME.fullmatch(name) is None or address.query or address.fragment:
        raise _build_error(
            "URL",
            "DIALECTIC_STORAGE_URL must be s3:// and a bucket's name, optionally with a folder,"
            " as in s3://documents/dialectic. Set the server in DIALECTIC_STORAGE_ENDPOINT, keys"
            " in DIALECTIC_STORAGE_ACCESS_KEY_ID and DIALECTIC_STORAGE_SECRET_ACCESS_KEY.",
        )
    if prefix and not _is_folder(prefix):
        raise _build_error(
            "URL",
            "The folder in DIALECTIC_STORAGE_URL must be plain names separated by /, without . or"
            f" .., of at most {PREFIX_BYTES_MAX} bytes, as in s3://documents/dialectic.",
            "bad_folder",
            limit=PREFIX_BYTES_MAX,
        )
    if access.key_id is None or access.key is None:
        raise _build_error(
            "ACCESS_KEY_ID",
            "DIALECTIC_STORAGE_URL names an S3 bucket, but its key is not set. Set both"
            " DIALECTIC_STORAGE_ACCESS_KEY_ID and DIALECTIC_STORAGE_SECRET_ACCESS_KEY.",
            "no_key",
        )
    if _REGION.fullmatch(access.region) is None:
        message = "DIALECTIC_STORAGE_REGION must be a region's name, such as us-east-1."
        raise _build_error("REGION", message)
    endpoint = _build_endpoint(name, access)
    return Bucket(name, prefix, endpoint, access, access.key_id, access.key)


def _is_folder(prefix: str) -> bool:
    return (
        _PREFIX.fullmatch(prefix) is not None
        and len(prefix.encode(errors="replace")) <= PREFIX_BYTES_MAX
        and not {".", ".."} & set(prefix.split("/"))
        and prefix.isprintable()
    )


def _build_endpoint(bucket: str, access: BucketAccess) -> str:
    """Build the base URL of requests, without a trailing slash."""
    endpoint = access.endpoint or f"https://s3.{access.region}.amazonaws.com"
    not_a_server = _build_error(
        "ENDPOINT",
        "DIALECTIC_STORAGE_ENDPOINT must be only the address of an S3 server, as in"
        " https://minio.example.org:9000. Set the bucket in DIALECTIC_STORAGE_URL.",
    )
    try:
        address = urlsplit(endpoint)
        host, port = address.hostname or "", address.port
    except ValueError:
        raise not_a_server from None
    if ":" in host:
        host = f"[{host}]"
    if (
        address.scheme not in ("http", "https")
        or _HOST.fullmatch(host) is None
        or (address.username or address.password or address.query or address.fragment)
        or address.path not in ("", "/")
    ):
        raise not_a_server
    if address.scheme == "http" and not access.allows_http:
        raise _build_error(
            "ENDPOINT",
            "DIALECTIC_STORAGE_ENDPOINT begins with http://, so documents are sent unencrypted."
            " Use https://, or allow it with DIALECTIC_STORAGE_ALLOW_HTTP=true.",
            "unencrypted",
        )
    where = host if access.is_path_style else f"{bucket}.{host}"
    return f"{address.scheme}://{where}{f':{port}' if port else ''}"


def _build_error(
    setting: str, message: str, reason: str = "bad_value", limit: int | None = None
) -> ConfigurationError:
    subject = f"DIALECTIC_STORAGE_{setting}"
    return ConfigurationError(message, reason=reason, subject=subject, limit=limit)
