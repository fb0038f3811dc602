"""A simulator of providers: HTTP in four vendors' wire formats, driven by a seed and a script.

`script` is the format of a script, `faults` the table of faults, `text` the documents, `wire_*` the
vendors' wire formats, `response` the response to one call, `service` the state between calls,
`server` the port. For demos, tests and capacity planning: docs/simulator.md.
"""

from dialectic_simulator.conversation import WireName
from dialectic_simulator.faults import TABLE, Fault
from dialectic_simulator.script import Script, build_script, load_script
from dialectic_simulator.server import Simulator, open_simulator

__all__ = [
    "TABLE",
    "Fault",
    "Script",
    "Simulator",
    "WireName",
    "build_script",
    "load_script",
    "open_simulator",
]
