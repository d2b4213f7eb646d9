"""Exact models: lower bounds with certificates, the bottleneck cut, and the models that solvers solve."""

from models.bounds import Bound, BoundError, best_bound, bound_document, lower_bounds
from models.bounds.bottleneck_cut import Cut, binary_search_cut, bottleneck_cut

__all__ = [
    "Bound",
    "BoundError",
    "Cut",
    "best_bound",
    "binary_search_cut",
    "bottleneck_cut",
    "bound_document",
    "lower_bounds",
]
