from specdash.domain.counters import Step
from specdash.ui import tokens
from specdash.ui.tokens import Origin

TEXTS = ("A", " b", " c", " d", " e", "\n")
STEPS = (
    Step(0, 0, 0.01),
    Step(3, 2, 0.02, drafter=0, proposed=(12, 13, 99)),
    Step(2, 2, 0.02, drafter=0, proposed=(15, 16)),
)


def test_each_token_knows_how_it_came_to_be() -> None:
    origins = [t.origin for t in tokens.trace_tokens(TEXTS, STEPS)]
    # prompt's own, plain pass, two accepted, one in place of 99, first of the next burst (cut).
    assert origins == [
        Origin.PLAIN,
        Origin.PLAIN,
        Origin.ACCEPTED,
        Origin.ACCEPTED,
        Origin.REPLACED,
        Origin.ACCEPTED,
    ]


def test_a_replaced_token_names_what_was_proposed() -> None:
    replaced = tokens.trace_tokens(TEXTS, STEPS)[4]
    assert replaced.proposed == 99
    assert tokens.proposed_name(99, {99: " x"}) == "“␣x”"
    assert tokens.proposed_name(99, {}) == "token 99"
    assert tokens.proposed_name(None, {}) == "not recorded"


def test_the_bonus_token_after_a_whole_draft_is_plain() -> None:
    marked = tokens.trace_tokens(("a", "b", "c"), (Step(1, 1, 0.1, proposed=(5,)),))
    assert [t.origin for t in marked] == [Origin.PLAIN, Origin.ACCEPTED, Origin.PLAIN]


def test_without_a_trace_all_tokens_are_plain() -> None:
    assert {t.origin for t in tokens.trace_tokens(TEXTS, None)} == {Origin.PLAIN}


def test_text_of_a_model_is_escaped() -> None:
    marked = tokens.trace_tokens(("<script>", "</b>", '"'), (Step(1, 1, 0.1, proposed=(5,)),))
    shown = tokens.tokens_html(marked, {})
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "&lt;/b&gt;" in shown


def test_the_legend_counts_every_origin() -> None:
    legend = tokens.legend_html(tokens.trace_tokens(TEXTS, STEPS))
    assert "own: 2</span>" in legend
    assert "accepted: 3</span>" in legend
    assert "target's: 1</span>" in legend


def test_a_difference_starts_with_what_is_equal() -> None:
    shown = tokens.difference_html(("a", "b", "<x>"), split=2, context=1)
    assert "… b" in shown
    assert "&lt;x&gt;" in shown
    assert "(ends here)" in tokens.difference_html(("a",), split=1)


def test_the_hint_names_which_of_several_methods_proposed() -> None:
    steps = (Step(2, 1, 0.02, drafter=1, proposed=(12, 99)),)
    marked = tokens.trace_tokens(("A", " b", " c"), steps)
    chained = tokens.tokens_html(marked, {99: " x"}, ("ngram-simple", "prompt-lookup"))
    assert "pass 1: proposed by prompt-lookup and accepted" in chained
    assert "pass 1: proposed “␣x” by prompt-lookup, refused" in chained
    assert "prompt-lookup" not in tokens.tokens_html(marked, {}, ("prompt-lookup",))
