"""One profile for all random tests: the same examples in every run, and no clock."""

from hypothesis import HealthCheck, settings

thorough = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
