"""A simulator of providers: HTTP in four vendors' words, driven by a seed and a script.

`script` is the form of a script, `faults` the table of what can go wrong, `text` the documents,
`wire_*` the vendors' words, `answering` the response to one call, `desk` what lives between calls,
`server` the port. For demos, tests and capacity planning: docs/simulator.md.
"""

from dialectic_simulator.conversation import WireName
from dialectic_simulator.faults import TABLE, Fault
from dialectic_simulator.script import Script
from dialectic_simulator.script_file import build_script, load_script
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
