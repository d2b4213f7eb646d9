"""TACCL: collectives synthesized from communication sketches by mixed-integer programs (NSDI 2023).

Read `sketch` (what a designer fixes), `logical` (the links that are left), `demand` (chunks, the links that
may carry them, symmetry) and `costs`. Then read the stages: `routing_model` and `routing` (a path for every
chunk), `transfers` and `ordering` (which goes first), `scheduling` (which travel as one message, and when).
`solving` says how programs are solved and until when. `stages` runs the stages one after the other, and
`method` says what a user may choose.
"""

from tutti.models.taccl.method import METHOD
from tutti.models.taccl.sketch import Sketch, read_sketch, shipped_sketches

__all__ = ["METHOD", "Sketch", "read_sketch", "shipped_sketches"]
