"""Counters of /metrics: names old and new, several engines, growth that never goes back."""

import pytest

from specdash.engines.prometheus import Growth, histogram_from_positions, parse_metrics
from specdash.errors import EngineError

DRAFTS = "vllm:spec_decode_num_drafts"
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"

TWO_ENGINES = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 3.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 4.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 1.0
"""


def test_engines_behind_one_address_are_summed() -> None:
    scrape = parse_metrics(TWO_ENGINES, "vLLM")
    assert scrape.value(DRAFTS) == 7.0
    assert scrape.value(DRAFTS, engine="1") == 4.0
    assert scrape.by_label(PER_POSITION, "position") == {"0": 3.0, "1": 1.0}


def test_names_without_total_are_found_too() -> None:
    assert parse_metrics(f"{DRAFTS} 5\n", "vLLM").value(DRAFTS) == 5.0


def test_a_counter_that_is_not_there_is_unknown() -> None:
    scrape = parse_metrics("up 1\n", "vLLM")
    assert scrape.value(DRAFTS) is None
    assert Growth(scrape, scrape, "vLLM").count(DRAFTS) is None
    assert Growth(scrape, scrape, "vLLM").by_position(PER_POSITION) is None


def test_a_counter_that_appears_later_began_at_zero() -> None:
    growth = Growth(parse_metrics("", "vLLM"), parse_metrics(TWO_ENGINES, "vLLM"), "vLLM")
    assert growth.count(DRAFTS) == 7
    assert growth.by_position(PER_POSITION) == (3, 1)


def test_a_counter_that_falls_stops_the_run() -> None:
    after = parse_metrics(f"{DRAFTS} 5\n", "vLLM")
    growth = Growth(parse_metrics(TWO_ENGINES, "vLLM"), after, "vLLM at http://h:8000")
    with pytest.raises(EngineError, match="fell from 7 to 5"):
        growth.count(DRAFTS)


def test_what_is_no_metrics_text_is_an_error() -> None:
    with pytest.raises(EngineError, match="vLLM at http://h shows no readable metrics"):
        parse_metrics("<html>nope</html>", "vLLM at http://h")


def test_the_histogram_follows_from_the_positions() -> None:
    assert histogram_from_positions((31, 26, 24, 22, 22), 35) == (4, 5, 2, 2, 0, 22)
    assert histogram_from_positions((), 0) == (0,)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e300"])
def test_a_counter_that_is_no_count_is_an_error_in_words(value: str) -> None:
    growth = Growth(parse_metrics("", "vLLM"), parse_metrics(f"{DRAFTS} {value}\n", "vLLM"), "vLLM")
    with pytest.raises(EngineError, match=f"The counter {DRAFTS} stands at .*, which is no count"):
        growth.count(DRAFTS)


@pytest.mark.parametrize("position", ["abc", "-5", "300000000", "4096", "²", ""])
def test_a_position_that_is_none_is_an_error_in_words(position: str) -> None:
    text = f'{PER_POSITION}_total{{position="{position}"}} 1.0\n'
    growth = Growth(parse_metrics("", "vLLM"), parse_metrics(text, "vLLM"), "vLLM")
    with pytest.raises(EngineError, match="counts accepted tokens at position"):
        growth.by_position(PER_POSITION)
