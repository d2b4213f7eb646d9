"""TACCL: collectives synthesized from communication sketches by mixed-integer programs (NSDI 2023)."""

from models.taccl.method import METHOD
from models.taccl.sketch import Sketch, read_sketch, shipped_sketches

__all__ = ["METHOD", "Sketch", "read_sketch", "shipped_sketches"]
