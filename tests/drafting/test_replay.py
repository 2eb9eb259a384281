import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdash.domain.arms import parse_arm
from specdash.drafting.base import Chain, NgramDrafter
from specdash.drafting.replay import NO_LIMIT, ReplayCounters, ReplayStep, replay, replay_chain
from specdash.errors import UnsupportedError

_ARM = parse_arm("ngram-mod")


class _Script(NgramDrafter):
    """Proposes the given drafts one after the other and notes the limits it was given."""

    def __init__(self, *drafts: list[int]) -> None:
        super().__init__("ngram-mod", 100)
        self.drafts = list(drafts)
        self.limits: list[int] = []
        self.histories: list[list[int]] = []

    def draft(self, history: list[int], last: int, limit: int) -> list[int]:
        self.limits.append(limit)
        self.histories.append([*history, last])
        return self.drafts.pop(0) if self.drafts else []


def _run(
    script: _Script, output: list[int], n_predict: int = 256, n_ctx: int = 4096, eog: int = 2
) -> ReplayCounters:
    return replay_chain(
        [1, 1], output, _ARM, Chain([script]), n_predict=n_predict, n_ctx=n_ctx, eog_ids=[eog]
    )


def test_tokens_are_accepted_while_they_equal_the_output() -> None:
    counted = _run(_Script([11, 12, 99], [], [14]), [10, 11, 12, 13, 14, 15])

    assert counted.steps == (
        ReplayStep(3, 2, 0),
        ReplayStep(0, 0, None),
        ReplayStep(1, 0, 0),
    )
    assert (counted.n_drafted, counted.n_accepted) == (4, 2)
    assert (counted.n_verify_steps, counted.n_plain_steps) == (2, 1)
    assert counted.accepted_histogram == (1, 0, 1, 0)


def test_the_history_is_prompt_and_output_without_the_last_token() -> None:
    script = _Script([11, 12], [])
    _run(script, [10, 11, 12, 13, 14])

    assert script.histories == [[1, 1, 10], [1, 1, 10, 11, 12, 13]]


def test_an_end_token_inside_a_draft_is_emitted_but_not_counted() -> None:
    counted = _run(_Script([11, 2, 30]), [10, 11, 2])
    assert counted.steps == (ReplayStep(3, 1, 0),)


def test_an_end_token_that_ends_the_draft_is_counted() -> None:
    counted = _run(_Script([11, 2]), [10, 11, 2])
    assert counted.steps == (ReplayStep(2, 2, 0),)


def test_the_limit_keeps_room_for_the_target_s_own_token() -> None:
    script = _Script()
    _run(script, [10, 11, 12, 13], n_predict=4)
    assert script.limits == [2, 1]  # and nobody is asked for the last token


def test_a_draft_is_cut_to_the_limit_before_it_counts() -> None:
    counted = _run(_Script([11, 12, 13, 14]), [10, 11, 12, 13], n_predict=4)
    assert counted.steps == (ReplayStep(2, 2, 0),)


def test_the_context_limits_drafts_too() -> None:
    script = _Script()
    _run(script, [10, 11, 12, 13], n_ctx=6)
    # n_ctx - len(history) - 2 with histories of 2, 3 and 4 ids
    assert script.limits == [2, 1]


def test_without_a_token_limit_only_the_context_bounds_a_draft() -> None:
    script = _Script()
    _run(script, [10, 11], n_predict=NO_LIMIT, n_ctx=100)
    assert script.limits == [96]


def test_off_takes_one_plain_pass_per_token_after_the_first() -> None:
    counted = replay([1], [5, 6, 7], parse_arm("off"), n_predict=256, n_ctx=4096, eog_ids=())
    assert (counted.n_plain_steps, counted.n_verify_steps) == (2, 0)
    assert counted.accepted_histogram == ()


def test_one_token_needs_no_pass() -> None:
    assert _run(_Script([1]), [10]).steps == ()


def test_chained_methods_keep_their_own_counters() -> None:
    first, second = _Script([], [13, 99]), _Script([11, 12])
    second.name = "ngram-cache"
    counted = replay_chain(
        [1, 1],
        [10, 11, 12, 20, 13, 30],
        parse_arm("ngram-mod+ngram-cache"),
        Chain([first, second]),
        n_predict=256,
        n_ctx=4096,
        eog_ids=(),
    )

    assert counted.steps == (ReplayStep(2, 2, 1), ReplayStep(2, 1, 0))
    assert counted.by_method["ngram-mod"].n_accepted == 1
    assert counted.by_method["ngram-cache"].n_accepted == 2
    assert counted.by_method["ngram-cache"].accepted_histogram == (0, 0, 1)


def test_a_draft_model_cannot_be_replayed_from_ids_alone() -> None:
    with pytest.raises(UnsupportedError, match="draft-simple"):
        replay(
            [1],
            [5, 6],
            parse_arm("draft-simple:model=small"),
            n_predict=256,
            n_ctx=4096,
            eog_ids=(),
        )


@given(
    prompt=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    output=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    arm=st.sampled_from(
        [
            "off",
            "ngram-simple:size_n=2,size_m=4",
            "ngram-map-k:size_n=2,size_m=4",
            "ngram-map-k4v:size_n=2,size_m=4",
            "ngram-mod:n_match=3,n_min=0,n_max=5",
            "ngram-cache",
            "ngram-simple:size_n=3,size_m=4+ngram-cache",
        ]
    ),
)
def test_counters_keep_the_identities_of_the_method(
    prompt: list[int], output: list[int], arm: str
) -> None:
    counted = replay(prompt, output, parse_arm(arm), n_predict=len(output), n_ctx=4096, eog_ids=())

    emitted = counted.n_accepted + counted.n_verify_steps + counted.n_plain_steps
    assert emitted == len(output) - 1
    assert 0 <= counted.n_accepted <= counted.n_drafted
    assert sum(counted.accepted_histogram) == counted.n_verify_steps
    assert sum(j * n for j, n in enumerate(counted.accepted_histogram)) == counted.n_accepted
