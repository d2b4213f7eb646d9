"""Results for some schedules and networks from light kernels, either compiled or run by Python.

Run as a script, this module forbids numba, so that Python runs all of them.
"""

import sys

CASES = (
    ("ring:5", "allgather", "ring"),
    ("complete:5", "broadcast", "direct"),
    ("complete:6", "scatter", "direct"),
    ("torus:4x4", "allgather", "tacos"),
    ("mesh:3x3?bandwidth=50GB/s,25GB/s", "allreduce", "tacos"),
)


def findings() -> list[str]:
    """Return times, costs and bounds of legal schedules, and the verifier's messages for wrong ones."""
    import numpy as np

    import tutti
    from tutti.schedules.schedule import Schedule
    from tutti.schedules.verify import VerificationError, verify

    said = []
    for network, kind, method in CASES:
        result = tutti.synthesize(network, kind, "1MB", method=method)
        said.append(f"{network} {result.time} {result.bound.seconds} {result.gap} {result.schedule.claims}")
        made: Schedule = result.schedule
        rng = np.random.default_rng(1)
        for _ in range(10):
            chunk, route = made.chunk.copy(), made.route.copy()
            row, other = rng.integers(len(made), size=2)
            chunk[row], route[row] = chunk[other], route[other]
            try:
                verify(made.replace(chunk=chunk, route=route, claims={}))
                said.append("legal")
            except VerificationError as error:
                said.append(str(error))
    said.append(str(tutti.bound("torus:3x3", "allgather", "1MB").seconds))
    return said


if __name__ == "__main__":
    from tutti.topologies.kernels import INTERPRETER

    INTERPRETER.seconds = 1e9
    for line in findings():
        sys.stdout.write(line + "\n")
    assert "numba" not in sys.modules
