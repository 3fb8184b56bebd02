import pytest

from kai_jax.api.times import TimeError, seconds, unix


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("0", 0.0),
        ("60s", 60.0),
        ("1h30m", 5400.0),
        ("-1.5s", -1.5),
        ("+2m", 120.0),
        (".5s", 0.5),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1500ms", 1.5),
        ("0.1ns", 0.0),
        (120_000_000_000, 120.0),
        (-1, -1e-9),
    ],
)
def test_duration(duration: str | int, expected: float) -> None:
    assert seconds(duration) == expected


@pytest.mark.parametrize("duration", ["", "5", "1d", "1h-30m", "1h2", "s", ".s", "1e3s", "10000000h", 2**63, "1s" * 40])
def test_not_a_duration(duration: str | int) -> None:
    with pytest.raises(TimeError, match="duration"):
        seconds(duration)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-08-01T10:00:00Z", 1785578400.0),
        ("2026-08-01T12:00:00+02:00", 1785578400.0),
        ("2026-08-01T10:00:00.25Z", 1785578400.25),
    ],
)
def test_timestamp(timestamp: str, expected: float) -> None:
    assert unix(timestamp) == expected


@pytest.mark.parametrize("timestamp", ["", "yesterday", "2026-08-01", "2026-08-01T10:00:00", "2026-13-01T10:00:00Z"])
def test_not_a_timestamp(timestamp: str) -> None:
    with pytest.raises(TimeError, match="RFC3339"):
        unix(timestamp)
