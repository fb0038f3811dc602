"""Opening a provider reads no library of the network."""

from __future__ import annotations

import subprocess
import sys


def test_opening_reads_no_library_of_the_network() -> None:
    program = (
        "import sys\n"
        "from dialectic.core.models.endpoint import Endpoint, WireFormat\n"
        "from dialectic.providers.catalog import open_provider\n"
        "for kind in WireFormat:\n"
        "    open_provider(Endpoint(name='x', kind=kind, base_url='http://h/v1'), None)\n"
        "assert 'httpx2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
