"""One look at a server: connected, version, models, what it can count; nothing is changed there."""

import pytest

from specdash.engines.base import ServerAddress
from specdash.engines.server_check import RemoteModel, check_server
from specdash.errors import UsageError
from tests.engines.fakes.lm_studio import FakeLmStudio
from tests.engines.fakes.scripted_http import Reply, ScriptedHttp
from tests.engines.fakes.sglang import OPTIONS, FakeSglang
from tests.engines.fakes.vllm import FakeVllm

PER_REQUEST = "drafted and accepted tokens of every request"
OTHERS = "requests and tokens of the whole server, to see whether others use it"


def test_two_vllm_servers() -> None:
    with FakeVllm("vllm_ngram") as on, FakeVllm("vllm_off") as off:
        check = check_server("vllm", ServerAddress("gpu", on.url, off.url))
    assert check.ok
    assert check.text == "Connected: vLLM 0.32.0, 1 model (smol)."
    assert check.version == "0.32.0"
    assert check.models == (RemoteModel("smol", "smol", {"n_ctx": 2048}),)
    assert check.counts == (OTHERS, PER_REQUEST, "verify steps", "acceptance by position")
    assert check.warnings == ()


def test_a_speculating_server_alone_lacks_its_baseline() -> None:
    with FakeVllm("vllm_ngram") as on:
        check = check_server("vllm", ServerAddress("gpu", on.url))
    assert check.warnings == ("No baseline server is registered: 'off' cannot be measured.",)


def test_servers_in_each_others_place_are_noticed() -> None:
    with FakeVllm("vllm_off") as on, FakeVllm("vllm_ngram") as off:
        check = check_server("vllm", ServerAddress("gpu", on.url, off.url))
    assert check.warnings == (
        "The server for 'off' speculates: it is no baseline.",
        "The server for the other arms runs without speculation.",
    )


def test_two_servers_with_nothing_in_common_are_noticed() -> None:
    with FakeVllm("vllm_ngram") as on, FakeVllm("vllm_off") as off:
        off.on("GET", "/v1/models", Reply({"data": [{"id": "other"}]}))
        off.on("GET", "/version", Reply({"version": "0.29.0"}))
        check = check_server("vllm", ServerAddress("gpu", on.url, off.url))
    assert check.ok
    assert check.models == ()
    assert check.warnings == (
        "The two servers run different versions (0.32.0 and 0.29.0): a difference may come from "
        "that.",
        "The two servers have no model in common.",
    )


def test_a_vllm_without_metrics_says_what_is_lost() -> None:
    with FakeVllm("vllm_ngram", metrics=False) as on:
        check = check_server("vllm", ServerAddress("gpu", on.url))
    assert check.counts == ()
    assert "Its /metrics cannot be read" in check.warnings[0]


def test_sglang() -> None:
    options = {**OPTIONS, "speculative_eagle_topk": 4, "enable_metrics": True}
    with FakeSglang(options=options) as on, FakeSglang() as off:
        check = check_server("sglang", ServerAddress("gpu", on.url, off.url))
    assert check.text == "Connected: SGLang 0.5.23, 1 model (llama)."
    assert check.counts == (
        PER_REQUEST,
        "verify steps",
        "acceptance by position",
        "requests of the whole server, to see whether others use it",
    )
    assert check.warnings == ("It drafts trees: more tokens are drafted than one text could hold.",)


def test_lm_studio_loads_nothing_for_a_look() -> None:
    with FakeLmStudio(loaded={"mine": {}}) as fake:
        check = check_server("lm-studio", ServerAddress("desk", fake.url))
    assert check.text == "Connected: LM Studio, 2 models (qwen/qwen3-8b, qwen3-0.6b)."
    assert check.models[0].name == "Qwen3 8B"
    assert check.models[0].facts == {
        "architecture": "qwen3",
        "quantization": "Q4_K_M",
        "size_bytes": 5_000_000_000,
        "params": "8B",
        "format": "gguf",
        "n_ctx": 40960,
        "loaded": True,
    }
    assert check.models[1].facts == {"loaded": False}
    assert check.counts == (PER_REQUEST,)
    assert [r.method for r in fake.requests] == ["GET"]


def test_an_old_lm_studio_says_what_cannot_be_set() -> None:
    with FakeLmStudio(v1=False) as fake:
        check = check_server("lm-studio", ServerAddress("desk", fake.url))
    assert [m.id for m in check.models] == ["qwen/qwen3-8b", "qwen3-0.6b"]
    assert "how much it drafts cannot be set" in check.warnings[0]


def llama_server(*, metrics: bool, speculative: bool) -> ScriptedHttp:
    fake = ScriptedHttp()
    fake.on(
        "GET",
        "/props",
        Reply(
            {
                "model_path": "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
                "build_info": "b11434-0c1e570",
                "default_generation_settings": {"n_ctx": 4096},
            }
        ),
    )
    meta = {"n_params": 134515008, "size": 98000000, "n_ctx_train": 8192, "n_vocab": 49152}
    fake.on("GET", "/v1/models", Reply({"data": [{"id": "smol", "meta": meta}]}))
    fake.on("GET", "/slots", Reply([{"id": 0, "n_ctx": 4096, "speculative": speculative}]))
    if metrics:
        fake.on("GET", "/metrics", Reply("llamacpp:n_decode_total 1\n"))
    return fake


def test_a_llama_server() -> None:
    with llama_server(metrics=True, speculative=True) as fake:
        check = check_server("llama-server", ServerAddress("box", fake.url, fake.url))
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert check.text == f"Connected: llama-server b11434-0c1e570, 1 model ({name})."
    (model,) = check.models
    assert (model.id, model.name, model.facts["n_ctx"]) == (name, name, 4096)
    assert check.counts == (PER_REQUEST, "verify steps", "acceptance by position")
    assert check.warnings == ("The server for 'off' speculates: it is no baseline.",)


def test_a_llama_server_without_metrics_says_what_is_lost() -> None:
    with llama_server(metrics=False, speculative=False) as fake:
        check = check_server("llama-server", ServerAddress("box", fake.url))
    assert check.counts == (PER_REQUEST,)
    assert check.warnings == (
        "It was started without --metrics: no verify steps and no acceptance by position.",
    )


@pytest.mark.parametrize("engine", ["llama-server", "lm-studio", "vllm", "sglang"])
def test_a_server_that_is_not_there_is_a_sentence(engine: str) -> None:
    fake = ScriptedHttp()
    url = fake.url
    fake.stop()
    check = check_server(engine, ServerAddress("gone", url))
    assert not check.ok
    assert f"at {url} cannot be reached" in check.text
    assert "Start the server, or remove it here and add it again" in check.text


@pytest.mark.parametrize("engine", ["llama-server", "lm-studio", "vllm", "sglang"])
def test_another_kind_of_server_is_a_sentence(engine: str) -> None:
    with ScriptedHttp() as fake:
        check = check_server(engine, ServerAddress("web", fake.url))
    assert not check.ok
    assert "404" in check.text


def test_a_wrong_token_is_a_sentence_without_it() -> None:
    with ScriptedHttp() as fake:
        fake.on("GET", "/v1/models", Reply({"error": "Invalid key s3cret"}, 401))
        check = check_server("vllm", ServerAddress("gpu", fake.url, token="s3cret"))
    assert not check.ok
    assert "401" in check.text
    assert "s3cret" not in repr(check)


def test_an_engine_without_servers_is_refused() -> None:
    with pytest.raises(UsageError, match="'llama-cpp' has no servers"):
        check_server("llama-cpp", ServerAddress("x", "http://h"))


@pytest.mark.parametrize(
    ("model_id", "said"),
    [
        (None, "vLLM names a model by null, which is no text."),
        (5, "vLLM names a model by 5, which is no text."),
        ({}, "vLLM names a model by {}, which is no text."),
        ("", "vLLM names a model by '', which cannot be typed."),
        ("a\ud800", r"vLLM names a model by 'a\ud800', which cannot be typed."),
        ("a\0b", r"vLLM names a model by 'a\x00b', which cannot be typed."),
        ("x" * 100_000, f"vLLM names a model by 100000 characters: '{'x' * 40}...'."),
    ],
)
def test_an_id_that_no_request_could_name_fails_the_test(model_id: object, said: str) -> None:
    with FakeVllm("vllm_ngram") as on:
        on.on("GET", "/v1/models", Reply({"data": [{"id": model_id}]}))
        check = check_server("vllm", ServerAddress("gpu", on.url))
    assert not check.ok
    assert check.models == ()
    assert check.text == f"{said} Is that address really such a server?"


@pytest.mark.parametrize("key", [None, 7, "q\udfff"])
def test_lm_studio_must_name_its_models_too(key: object) -> None:
    with FakeLmStudio() as fake:
        fake.on("GET", "/api/v1/models", Reply({"models": [{"type": "llm", "key": key}]}))
        check = check_server("lm-studio", ServerAddress("desk", fake.url))
    assert not check.ok
    assert "LM Studio names a model by" in check.text


def test_odd_characters_in_what_a_server_says_are_not_kept() -> None:
    with FakeLmStudio() as fake:
        row = {"type": "llm", "key": "q", "display_name": "Q\0\ud800", "size_bytes": 10**400}
        fake.on("GET", "/api/v1/models", Reply({"models": [{**row, "format": "a\ud800"}]}))
        check = check_server("lm-studio", ServerAddress("desk", fake.url))
    assert check.models == (RemoteModel("q", "Q??", {"loaded": False}),)


def test_an_odd_version_is_cleaned_and_many_models_are_counted() -> None:
    with FakeVllm("vllm_ngram") as on:
        on.on("GET", "/version", Reply({"version": "0\ud800" + "9" * 500}))
        on.on("GET", "/v1/models", Reply({"data": [{"id": f"m{i}"} for i in range(12)]}))
        check = check_server("vllm", ServerAddress("gpu", on.url))
    assert check.version == "0?" + "9" * 95 + "..."
    assert check.text.endswith("12 models (m0, m1, m2, m3, m4, m5, m6, m7, m8, m9 and 2 more).")
    assert len(check.models) == 12


def test_a_server_with_too_many_models_fails_the_test() -> None:
    with FakeVllm("vllm_ngram") as on:
        on.on("GET", "/v1/models", Reply({"data": [{"id": f"m{i}"} for i in range(2001)]}))
        check = check_server("vllm", ServerAddress("gpu", on.url))
    assert (check.ok, check.models) == (False, ())
    assert "vLLM names 2001 models; at most 2000 can be kept." in check.text


def test_a_server_that_repeats_the_token_is_no_server_to_keep() -> None:
    token = "sk-0123456789abcdef"
    with FakeVllm("vllm_ngram") as on:
        on.on("GET", "/version", Reply({"version": f"1 Bearer {token}"}))
        named = check_server("vllm", ServerAddress("gpu", on.url, token=token))
        on.on("GET", "/v1/models", Reply({"data": [{"id": token}]}))
        check = check_server("vllm", ServerAddress("gpu", on.url, token=token))
    assert (named.ok, named.version) == (True, "1 Bearer ***")
    assert not check.ok
    assert check.text.startswith("vLLM repeats the token as the id of a model.")
    assert token not in repr(named) + repr(check)
