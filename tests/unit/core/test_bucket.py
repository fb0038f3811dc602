"""The address of a bucket and its settings are understood, or refused at once."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from dialectic.core.access import Secret
from dialectic.core.bucket import Bucket, BucketAccess, parse_bucket
from dialectic.errors import ConfigurationError
from tests.cases import each_case
from tests.problems import check_error

ACCESS = BucketAccess(key_id=Secret("its-name"), key=Secret("hidden"))


def parse(url: str, access: BucketAccess = ACCESS) -> Bucket:
    return parse_bucket(urlsplit(url), access)


def refusal(url: str, access: BucketAccess = ACCESS) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse(url, access)
    assert "hidden" not in caught.value.message
    return caught.value


@each_case(
    ("url", "name", "prefix", "address"),
    [
        ("s3://documents", "documents", "", "s3://documents"),
        ("s3://documents/", "documents", "", "s3://documents"),
        ("s3://my.docs/a/b/", "my.docs", "a/b", "s3://my.docs/a/b"),
        ("s3://my.docs/a%20b", "my.docs", "a b", "s3://my.docs/a b"),
    ],
)
def test_an_address_names_a_bucket_and_a_folder(
    url: str, name: str, prefix: str, address: str
) -> None:
    bucket = parse(url)
    assert (bucket.name, bucket.prefix, bucket.address) == (name, prefix, address)


@each_case(
    "url",
    ["s3://", "s3:///a", "s3://key:hidden@bucket/a", "s3://b", "s3://bu cket", "s3://bucket/a?b=c"],
)
def test_an_address_without_a_bucket_is_refused(url: str) -> None:
    check_error(refusal(url), "s3://", reason="bad_value", subject="DIALECTIC_STORAGE_URL")


@each_case("folder", ["a//b", "../a", "a/./b", "a%00", "a%5Cb", "a%0Ab", "x" * 201])
def test_a_folder_that_could_lead_astray_is_refused(folder: str) -> None:
    error = refusal(f"s3://documents/{folder}")
    check_error(error, reason="bad_folder", subject="DIALECTIC_STORAGE_URL")


@pytest.mark.parametrize("missing", ["key_id", "key"])
def test_a_bucket_needs_both_halves_of_its_key(missing: str) -> None:
    message = refusal("s3://documents", replace(ACCESS, **{missing: None})).message  # type: ignore[arg-type]
    assert "DIALECTIC_STORAGE_ACCESS_KEY_ID" in message
    assert "DIALECTIC_STORAGE_SECRET_ACCESS_KEY" in message


@each_case(
    ("endpoint", "is_path_style", "asked_at"),
    [
        ("", True, "https://s3.eu-north-1.amazonaws.com"),
        ("", False, "https://documents.s3.eu-north-1.amazonaws.com"),
        ("https://minio.example.org:9000/", True, "https://minio.example.org:9000"),
        ("https://minio.example.org:9000", False, "https://documents.minio.example.org:9000"),
        ("https://[::1]:9000", True, "https://[::1]:9000"),
    ],
)
def test_requests_go_to_the_server_with_the_bucket_in_the_path_or_in_the_host(
    endpoint: str, is_path_style: bool, asked_at: str
) -> None:
    access = replace(ACCESS, endpoint=endpoint, region="eu-north-1", is_path_style=is_path_style)
    assert parse("s3://documents", access).endpoint == asked_at


@each_case(
    "endpoint",
    [
        "minio:9000",
        "nonsense",
        "ftp://host",
        "https://",
        "https://user:hidden@host",
        "https://host/bucket",
        "https://host?x=hidden",
        "https://host:port",
        "https://ho st",
        "https://[",
    ],
)
def test_a_server_is_an_address_and_nothing_more(endpoint: str) -> None:
    access = replace(ACCESS, endpoint=endpoint)
    error = refusal("s3://documents", access)
    check_error(error, reason="bad_value", subject="DIALECTIC_STORAGE_ENDPOINT")


def test_a_server_without_encryption_must_be_allowed() -> None:
    access = replace(ACCESS, endpoint="http://127.0.0.1:9000")
    error = refusal("s3://documents", access)
    check_error(error, "DIALECTIC_STORAGE_ALLOW_HTTP=true", reason="unencrypted")
    allowed = replace(access, allows_http=True)
    assert parse("s3://documents", allowed).endpoint == "http://127.0.0.1:9000"


@each_case("region", ["", "eu north", "x" * 65, "a/b"])
def test_a_region_is_a_name(region: str) -> None:
    error = refusal("s3://documents", replace(ACCESS, region=region))
    assert error.subject == "DIALECTIC_STORAGE_REGION"
