"""What a llama-server says over HTTP, in shapes old and new."""

import pytest

from specdash.domain.workload import Message
from specdash.engines.http import HttpServer, ServerRefusal
from specdash.engines.llama_server_client import LlamaServerClient, read_completion
from specdash.errors import EngineError
from tests.engines.fakes.llama_server import FakeLlamaServer, captured
from tests.engines.fakes.scripted_http import Reply, Request


def client(fake: FakeLlamaServer) -> LlamaServerClient:
    return LlamaServerClient(HttpServer(fake.url, title="llama-server"))


def test_the_model_is_read_out_of_band() -> None:
    with FakeLlamaServer("off") as fake:
        model = client(fake).model()
    assert model.path == "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    assert (model.n_params, model.size_bytes, model.n_vocab) == (134515008, 96576768, 49152)
    assert (model.n_ctx, model.n_ctx_train) == (4096, 8192)
    assert (model.bos_token, model.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert model.is_called("SmolLM2-135M-Instruct.Q4_1")
    assert model.is_called(r"C:\models\smollm2-135m-instruct.q4_1.GGUF".lower())
    assert not model.is_called("SmolLM2-135M-Instruct.Q4_0")


def test_the_context_is_that_of_one_slot() -> None:
    slots = [{"id": i, "n_ctx": 1024, "speculative": False} for i in range(4)]
    with FakeLlamaServer("off") as fake:
        fake.on("GET", "/slots", Reply(slots))
        assert client(fake).model().n_ctx == 1024


def test_a_router_of_several_models_is_refused() -> None:
    rows = {"data": [{"id": "a"}, {"id": "b"}]}
    with FakeLlamaServer("off") as fake:
        fake.on("GET", "/v1/models", Reply(rows))
        with pytest.raises(EngineError, match="serves 2 models"):
            client(fake).model()


@pytest.mark.parametrize(
    ("case", "expected"),
    [("off", False), ("draft-simple", True), ("ngram-mod", True), ("md-without-spec-type", False)],
)
def test_slots_say_whether_it_speculates(case: str, expected: bool) -> None:
    with FakeLlamaServer(case) as fake:
        assert client(fake).speculates() is expected


def test_a_build_that_does_not_say_is_unknown() -> None:
    with FakeLlamaServer("draft-simple") as fake:
        fake.on("GET", "/slots", Reply([{"id": 0, "n_ctx": 4096}]))
        assert client(fake).speculates() is None
        fake.without("/slots", "/metrics")
        assert client(fake).speculates() is None
        assert client(fake).metrics() is None


def test_a_refusal_that_is_no_missing_route_is_not_swallowed() -> None:
    with FakeLlamaServer("off") as fake:
        fake.on("GET", "/metrics", Reply({"error": {"message": "Invalid API Key"}}, 401))
        with pytest.raises(ServerRefusal, match="Invalid API Key"):
            client(fake).metrics()


def test_the_request_is_cold_greedy_and_of_fixed_seed() -> None:
    with FakeLlamaServer("draft-simple") as fake:
        done = client(fake).complete([1, 2, 3], 60, seed=7, temperature=0, ignore_eos=True)
        sent = fake.sent("/completion")[0].body
    assert sent == {
        "prompt": [1, 2, 3],
        "n_predict": 60,
        "temperature": 0,
        "top_k": 1,
        "seed": 7,
        "cache_prompt": False,
        "ignore_eos": True,
        "return_tokens": True,
        "stream": False,
    }
    assert (done.n_drafted, done.n_accepted, done.n_generated, done.n_prompt) == (44, 44, 60, 228)
    assert (done.prompt_ms, done.predicted_ms, done.n_cached) == (925.184, 916.245, 0)
    assert (done.stopped_by, done.spec_types) == ("limit", ("draft-simple",))
    assert done.token_ids[:4] == (39428, 311, 1799, 216)
    assert len(done.token_ids) == 60
    assert done.text.startswith('{"id": 0, "city": "Hanoi"')


def test_absent_counters_are_unknown_not_zero() -> None:
    done = read_completion(captured("off", "completion.json"))
    assert (done.n_drafted, done.n_accepted, done.spec_types) == (None, None, ())


def test_an_answer_of_an_older_build() -> None:
    done = read_completion(
        {
            "content": "Hello",
            "tokens": [9, 10],
            "stopped_eos": True,
            "stopped_limit": False,
            "tokens_predicted": 2,
            "tokens_evaluated": 5,
            "timings": {"prompt_n": 5, "prompt_ms": 50.0, "predicted_n": 2, "predicted_ms": 20.0},
        }
    )
    assert (done.stopped_by, done.n_generated, done.n_prompt) == ("eos", 2, 5)
    assert (done.n_cached, done.n_drafted, done.spec_types) == (None, None, None)


@pytest.mark.parametrize("body", [{"content": "x", "timings": {"predicted_n": 1}}, [], "text"])
def test_an_answer_without_ids_is_refused(body: object) -> None:
    with pytest.raises(EngineError):
        read_completion(body)


def test_a_bos_that_text_and_tokeniser_both_add_stands_once() -> None:
    with FakeLlamaServer("off") as fake:
        asked = client(fake)
        assert asked.prompt_ids("<|im_start|>A", "<|im_start|>") == (1, 165)
        assert asked.prompt_ids("A", "<|im_start|>") == (1, 165)
        assert asked.prompt_ids("A", "") == (1, 165)


def test_messages_are_rendered_by_the_server() -> None:
    with FakeLlamaServer("off") as fake:
        text = client(fake).render([Message("user", "Hi")])
        sent = fake.sent("/apply-template")[0].body
    assert sent == {"messages": [{"role": "user", "content": "Hi"}]}
    assert text.endswith("<|im_start|>assistant\n")


class Detokeniser:
    """``/detokenize`` by bytes of each token, as a server that splits characters over tokens."""

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self._pieces = pieces
        self.n_asked = 0

    def __call__(self, request: Request) -> Reply:
        self.n_asked += 1
        data = b"".join(self._pieces[t] for t in request.body["tokens"])
        return Reply({"content": data.decode("utf-8", "replace")})


PIECES = {1: b"a", 2: "é".encode()[:1], 3: "é".encode()[1:], 4: b"<|im_end|>", 5: b" b"}


def test_each_token_has_its_text_and_control_tokens_none() -> None:
    with FakeLlamaServer("off") as fake:
        detokenise = Detokeniser(PIECES)
        fake.on("POST", "/detokenize", detokenise)
        asked = client(fake)
        assert asked.token_texts([1, 5, 1, 4], "a ba") == ("a", " b", "a", "")
        n_asked = detokenise.n_asked
        assert asked.token_texts([5, 1], " ba") == (" b", "a")
        assert detokenise.n_asked == n_asked


def test_a_split_character_comes_with_the_token_that_ends_it() -> None:
    with FakeLlamaServer("off") as fake:
        fake.on("POST", "/detokenize", Detokeniser(PIECES))
        assert client(fake).token_texts([1, 2, 3, 5], "aé b") == ("a", "", "é", " b")


def test_pieces_that_are_not_the_text_are_not_shown() -> None:
    with FakeLlamaServer("off") as fake:
        fake.on("POST", "/detokenize", Detokeniser(PIECES))
        assert client(fake).token_texts([1, 5], "something else") == ()
