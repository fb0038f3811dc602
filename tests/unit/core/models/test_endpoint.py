"""Only public servers over TLS may be called for a tenant, however an address is written."""

from __future__ import annotations

import contextlib
from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.endpoint import check_base_url, is_public
from dialectic.errors import ForbiddenAddress
from tests.cases import each_case

PRIVATE = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255"),
    *("192.168.0.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "100.127.255.255"),
    *("192.0.0.192", "198.18.0.1", "224.0.0.1", "239.255.255.255", "255.255.255.255"),
    *("168.63.129.16", "203.0.113.7", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1"),
    *("fd00:ec2::254", "ff02::1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::127.0.0.1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:53aa::1", "2001:db8::1"),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111"]
ODD_FORMS = [
    *("2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "127.1", "0"),
    *("169.254.43518", "017700000001", "00000177.0.0.1", "8.8.8.8.8", "134744072", "08.8.8.8"),
]
CLOSED_NAMES = [
    *("localhost", "db", "metadata.google.internal", "printer.local", "a.localhost", "router.lan"),
    *("169.254.169.254.nip.io", "nip.io", "10-0-0-1.sslip.io", "app.lvh.me", "LOCALHOST"),
    *("127.0.0.1.", "localhost.", "a..example.org", "a b.example", "%6cocalhost.example%00", ""),
    *("\uff11\uff12\uff17.0.0.1", "①②⑦.example.org", "a/b", "-a.example"),
]


@each_case("address", PRIVATE)
def test_what_is_not_public_is_not_called(address: str) -> None:
    assert not is_public(address)


@each_case("address", PUBLIC)
def test_what_is_public_may_be_called(address: str) -> None:
    assert is_public(address)
    host = f"[{address}]" if ":" in address else address
    check_base_url(f"https://{host}/v1")


@given(st.ip_addresses())
def test_nothing_is_public_that_the_library_does_not_take_for_public_too(address: object) -> None:
    if is_public(str(address)):
        found = ip_address(str(address))
        assert found.is_global
        assert not found.is_multicast


@given(st.ip_addresses(v=4).filter(lambda address: not is_public(str(address))))
def test_a_private_address_is_refused_in_every_notation(address: IPv4Address) -> None:
    number = int(address)
    parts = str(address).split(".")
    written = [str(address), str(number), hex(number), f"0{number:o}", f"[::ffff:{address}]"]
    written += [".".join(f"0{int(part):o}" for part in parts), ".".join(map(hex, map(int, parts)))]
    written += [f"{parts[0]}.{number & 0xFFFFFF}", f"{address}.nip.io", f"{address}."]
    for host in written:
        with pytest.raises(ForbiddenAddress):
            check_base_url(f"https://{host}/v1")


@each_case("host", [*ODD_FORMS, *CLOSED_NAMES, *(f"[{a}]" for a in PRIVATE if ":" in a)])
def test_a_host_that_may_lead_inside_is_refused(host: str) -> None:
    with pytest.raises(ForbiddenAddress):
        check_base_url(f"https://{host}/v1")


@each_case(
    "url",
    [
        *(
            "http://api.example.org/v1",
            "ftp://api.example.org",
            "file:///etc/passwd",
            "",
            "//a.org",
        ),
        *("https://user:word@api.example.org", "https://api.example.org?x=1", "https://[::1"),
        *("https://api.example.org#a", "https://api.example.org:0/", "https://api.example.org:x/"),
        *("https://api.example.org@127.0.0.1/", "gopher://api.example.org:70/"),
    ],
)
def test_only_a_plain_https_url_is_taken(url: str) -> None:
    with pytest.raises(ForbiddenAddress):
        check_base_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.org/v1",
        "https://API.example.org:8443",
        "https://xn--bcher-kva.example.",
    ],
)
def test_a_public_name_may_be_given(url: str) -> None:
    check_base_url(url)


@given(st.text(max_size=40))
def test_whatever_is_given_is_taken_or_refused_in_words(text: str) -> None:
    with contextlib.suppress(ForbiddenAddress):
        check_base_url(f"https://{text}")
