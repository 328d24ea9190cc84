from sevenfold.engines import flags


def test_underscores_and_dashes_are_one_flag_and_false_takes_it_away() -> None:
    assert flags.given({"--tp_size": 2, "enable-metrics": False}) == {"tp-size": 2}


def test_argv() -> None:
    given: dict[str, flags.Value] = {
        "enable-metrics": True,
        "tp-size": 2,
        "mem-fraction-static": 0.9,
        "cuda-graph-bs": "1 2 4",
        "speculative-config": '{"method": "mtp"}',
        "seed": 1,
    }
    assert flags.argv(given) == (
        *("--enable-metrics", "--tp-size", "2", "--mem-fraction-static", "0.9"),
        *("--cuda-graph-bs", "1", "2", "4"),
        *("--speculative-config", '{"method": "mtp"}', "--seed", "1"),
    )
