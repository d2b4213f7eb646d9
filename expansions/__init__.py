"""Topology and schedule growing together: line graph, degree, Cartesian power and product.

Source: dissertation, sections 3.5 and A.4.
"""

from expansions.method import METHOD
from expansions.prediction import Prediction, predict

__all__ = ["METHOD", "Prediction", "predict"]
