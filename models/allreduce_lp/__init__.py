"""The allreduce linear program of the dissertation (B.7, eq. B.5): the optimum, its proof, and its trees."""

from models.allreduce_lp.certificate import CutProof
from models.allreduce_lp.method import METHOD, AllreduceLpOptions
from models.allreduce_lp.optimum import Optimum, allreduce_optimum

__all__ = ["METHOD", "AllreduceLpOptions", "CutProof", "Optimum", "allreduce_optimum"]
