from sevenfold.engines.prometheus import total

TEXT = """\
# HELP a:tokens_total Tokens.
# TYPE a:tokens_total counter
a:tokens_total{mode="decode",model_name="/m \\"x\\", y"} 40.0
a:tokens_total{mode="decode",model_name="other"} 2 1700000000000
a:tokens_total{mode="prefill",model_name="other"} 1e3
a:tokens_total_created 99
a:bare 7
a:nan NaN
a:broken{ 1
a:words many
"""


def test_a_series_is_added_up_over_its_labels() -> None:
    assert total(TEXT, "a:tokens_total") == 1042
    assert total(TEXT, "a:tokens_total", mode="decode") == 42
    assert total(TEXT, "a:bare") == 7


def test_what_is_missing_is_unknown() -> None:
    assert total(TEXT, "a:none") is None
    assert total(TEXT, "a:tokens_total", mode="x") is None
    assert total(TEXT, "a:nan") is None
    assert total(TEXT, "a:broken") is None
    assert total(TEXT, "a:words") is None
