"""What an experiment is where nothing else is asked for (METHOD 5)."""

from specdash.domain.arms import OFF_ARM
from specdash.store.experiment_request import ExperimentRequest


def test_the_defaults_are_those_of_the_method() -> None:
    request = ExperimentRequest(1, 1, (OFF_ARM,))
    assert (request.warmup, request.rounds, request.anchor_every) == (1, 3, 8)
    generation = request.generation
    assert (generation.temperature, generation.ignore_eos) == (0.0, False)
