"""Settings that all tests share."""

from hypothesis import HealthCheck, settings

# Kernels compile at their first call, which says nothing about an example's own speed.
settings.register_profile("tutti", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tutti")
