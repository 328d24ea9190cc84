import pytest

from sevenfold import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SevenfoldError, 1),
        (errors.ConfigError, 2),
        (errors.NodeError, 3),
        (errors.GateError, 5),
        (errors.LockedError, 6),
        (errors.FleetError, 7),
    ],
)
def test_exit_code_by_class(error: type[errors.SevenfoldError], code: int) -> None:
    assert error("it broke").exit_code == code


def test_every_class_stands_in_the_picture() -> None:
    public = [name for name, value in vars(errors).items() if isinstance(value, type) and name != "RequestError"]
    assert [name for name in public if name not in (errors.__doc__ or "")] == []


def test_the_remedy_follows_the_message() -> None:
    assert str(errors.NodeError("disk full", "free some")) == "disk full\n  -> free some"
    assert str(errors.RowError("HTTP 400", "bad_request")) == "HTTP 400"
