"""Column generation: symmetry leaves its optimum as it is."""

import pytest

from tests.models.flows import no_symmetry
from tutti.models.all_to_all import Demand
from tutti.models.all_to_all.columns import ColumnGeneration
from tutti.models.all_to_all.reduction import ReducedProblem
from tutti.topologies import gen_kautz, hypercube, mesh, mi250, torus
from tutti.topologies.graphs.symmetry import automorphisms


@pytest.mark.parametrize("topology", [torus(4, 4), hypercube(3), gen_kautz(3, 20), mesh(3, 3), mi250(1)])
def test_symmetry_does_not_change_the_optimum(topology):
    demand = Demand.uniform(topology)
    with_group = ColumnGeneration(ReducedProblem(automorphisms(topology), demand)).run()
    without = ColumnGeneration(ReducedProblem(no_symmetry(topology), demand)).run()
    assert with_group.lower <= without.upper
    assert without.lower <= with_group.upper
    assert with_group.gap <= 1e-9
    assert without.gap <= 1e-9
