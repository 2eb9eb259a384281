"""Wrong use, refusals and the words that go with them."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.store.schema import upgrade
from specdash.store.session import read_session
from tests.cli.conftest import Command

ARM = "ngram-simple:size_n=4,size_m=16"


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("ngram-huge", "Unknown method 'ngram-huge'"),
        ("ngram-simple:size_q=3", "Allowed keys: size_n, size_m."),
        ("ngram-simple:size_n=0", "Allowed: 1 to 1024."),
        ("draft-simple", "draft-simple needs 'model'"),
    ],
)
def test_a_wrong_arm_is_wrong_use(
    specdash: Command, target: str, workload: str, arm: str, words: str
) -> None:
    answer = specdash("run", "--target", target, "--workload", workload, "--arm", arm)
    assert answer.status == 2
    assert words in answer.err
    assert answer.out == ""


def test_a_list_without_models_names_the_one_that_needs_no_scan(specdash: Command) -> None:
    answer = specdash("models", "list")
    assert answer.status == 0
    assert "No models yet." in answer.err
    assert "run --target demo" in answer.err


def test_a_missing_option_is_wrong_use(specdash: Command) -> None:
    answer = specdash("run", "--workload", "chat")
    assert answer.status == 2
    assert "--target" in answer.err


def test_an_unknown_target_says_what_can_be_named(specdash: Command, workload: str) -> None:
    answer = specdash("run", "--target", "nosuch", "--workload", workload, "--arm", ARM)
    assert answer.status == 1
    assert "nosuch" in answer.err


def test_a_dead_runner_fails_the_command_and_keeps_the_document(
    specdash: Command, engine: Engine, tmp_path: Path, workload: str
) -> None:
    from tests.helpers.seeding import scripted_file, seed_model

    path = scripted_file(tmp_path / "models", "dying", failure={"kind": "kill", "at_run": 3})
    seed_model(engine, path, "dying")  # type: ignore[arg-type]
    answer = specdash(
        "run", "--target", "dying", "--workload", workload, "--arm", ARM,
        "--engine", "scripted", "--json",
    )  # fmt: skip
    assert answer.status == 1
    assert "SIGKILL" in answer.err
    document = answer.document()
    assert isinstance(document, dict)
    assert [a["verdict"] for a in document["arms"]] == [None, None]


def test_an_older_schema_is_refused_with_the_command(
    specdash: Command, database_url: str, engine: object
) -> None:
    import sqlite3

    with sqlite3.connect(database_url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    answer = specdash("jobs")
    assert answer.status == 1
    assert "newer than this version" in answer.err


def test_the_first_command_makes_the_database(tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    result = subprocess.run(
        [sys.executable, "-m", "specdash", "jobs", "--json"],
        env={**os.environ, "SPECDASH_DATA_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout.strip()) == (0, "[]")
    assert not upgrade(f"sqlite:///{folder / 'specdash.sqlite3'}").changed


def test_import_names_every_bad_line_and_keeps_nothing(specdash: Command, tmp_path: Path) -> None:
    rows = tmp_path / "mine.jsonl"
    rows.write_text('{"prompt": "Good."}\n{"prompt": 3}\nnot json\n')
    answer = specdash("workloads", "import", rows)
    assert answer.status == 2
    assert "line 2" in answer.err
    assert "line 3" in answer.err
    assert "mine" not in specdash("workloads", "list").out


def test_export_and_import_give_the_same_version(specdash: Command, tmp_path: Path) -> None:
    file = tmp_path / "copy.yaml"
    exported = specdash("workloads", "export", "extract", file)
    assert exported.status == 0, exported.err
    version = exported.out.split("@")[1].split(":")[0]
    again = specdash("workloads", "import", file, "--name", "mine")
    assert again.out.startswith(f"mine@{version}:")


def test_differing_texts_are_counted_by_class(
    specdash: Command, engine: Engine, tmp_path: Path, workload: str
) -> None:
    from tests.helpers.seeding import scripted_file, seed_model

    path = scripted_file(
        tmp_path / "models",
        "parting",
        methods={"ngram-simple": {"diverge_at": 20}},
        split={"margin": 5.0},
    )
    seed_model(engine, path, "parting")  # type: ignore[arg-type]
    answer = specdash(
        "run", "--target", "parting", "--workload", workload, "--arm", ARM, "--rounds", "2",
        "--engine", "scripted",
    )  # fmt: skip
    assert answer.status == 0, answer.err
    n_runs = answer.out.split(" texts differ: ")[0].rsplit(" ", 1)[1]
    assert f"  {n_runs} of {n_runs} texts differ: {n_runs} suspect." in answer.out.splitlines()


def test_the_checks_of_the_form_are_said_before_anything_is_queued(
    specdash: Command, target: str, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDASH_WORKER", "external")
    words = ("--target", target, "--workload", workload, "--arm", ARM, "--engine", "scripted")
    answer = specdash("queue", *words, "--prompts", "2", "--seed", "5", "--json")
    assert answer.status == 0
    assert answer.err.splitlines() == [
        "Warning: Fewer than 3 prompts give no interval: the verdict will be 'not resolved'. Take "
        "10 or more.",
        "14 runs. How long they take is unknown: this machine has not measured this target with "
        "these settings yet.",
        "Smallest effect: none, for under 3 prompts there is no interval across prompts.",
    ]
    answer = specdash("queue", *words)
    assert "Smallest effect: a true change of " in answer.err.splitlines()[-1]
    answer = specdash("queue", *words, "--seed", "-1")
    assert answer.status == 2


def test_sigterm_cancels_the_job_as_ctrl_c_does(
    specdash: Command, engine: Engine, tmp_path: Path, workload: str
) -> None:
    import signal
    import threading

    from tests.helpers.seeding import scripted_file, seed_model

    path = scripted_file(tmp_path / "models", "slow", failure={"kind": "hang", "at_run": 1})
    seed_model(engine, path, "slow")  # type: ignore[arg-type]
    timer = threading.Timer(4, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    answer = specdash(
        "run", "--target", "slow", "--workload", workload, "--arm", ARM, "--engine", "scripted"
    )
    timer.cancel()
    assert answer.status != 0
    jobs = specdash("jobs", "--json").document()
    assert isinstance(jobs, list)
    assert [j["state"] for j in jobs] == ["cancelled"]
    assert "Job 1 is cancelled; what was measured is kept in experiment 1." in answer.err


def test_a_setting_that_cannot_be_used_is_named(
    specdash: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECDASH_QUIET_WAIT_S", "soon")
    answer = specdash("jobs")
    assert answer.status == 2
    assert answer.err.startswith("specdash: SPECDASH_QUIET_WAIT_S is 'soon', which cannot be used")
    assert "Traceback" not in answer.err


def test_a_data_folder_removed_during_a_run_fails_it_in_words(
    specdash: Command, engine: object, data_dir: Path, tmp_path: Path, workload: str
) -> None:
    import shutil
    import threading

    from tests.helpers.seeding import scripted_file, seed_model

    path = scripted_file(tmp_path / "models", "slow", failure={"kind": "hang", "at_run": 1})
    seed_model(engine, path, "slow")  # type: ignore[arg-type]
    timer = threading.Timer(4, shutil.rmtree, (data_dir,), {"ignore_errors": True})
    timer.start()
    answer = specdash(
        "run", "--target", "slow", "--workload", workload, "--arm", ARM, "--engine", "scripted"
    )
    timer.join()
    assert answer.status == 1
    assert "was removed while it was in use; what was written since is lost." in answer.err
    assert answer.out == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [("jobs", "--json"), ("--help",), ("workloads", "list")])
def test_output_that_cannot_be_written_is_an_error_in_words(
    words: tuple[str, ...], engine: object
) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "specdash", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.stderr == "specdash: the answer cannot be written: No space left on device.\n"
    assert result.returncode == 1


def test_experiments_that_do_not_compare_name_their_prompts_and_fail(
    specdash: Command, engine: object, target: str, workload: str
) -> None:
    from specdash.store.tables import Model, WorkloadVersion
    from tests.helpers.seeding import seed_experiment, seed_workload

    seed_workload(engine, "other", n_prompts=6)  # type: ignore[arg-type]
    with read_session(engine) as session:  # type: ignore[arg-type]
        model = session.exec(select(Model.id)).one()
        found = {w.name: w for w in session.exec(select(WorkloadVersion)).all()}
    ids = [
        str(seed_experiment(engine, found[name].id, model, (ARM,), n_prompts=n))  # type: ignore[arg-type]
        for name, n in (("seeded", 4), ("other", 6), ("seeded", 3))
    ]
    versions = {name: row.version[:8] for name, row in found.items()}
    answer = specdash("compare", *ids[:2])
    assert answer.status == 1
    assert answer.err == (
        f"Not comparable: prompts: 4 of seeded (version {versions['seeded']}) / "
        f"6 of other (version {versions['other']})\n"
    )
    as_json = specdash("compare", ids[0], ids[2], "--json")
    assert as_json.status == 1
    assert as_json.document()["reasons"] == [  # type: ignore[index]
        f"prompts: 4 of seeded (version {versions['seeded']}) / "
        f"3 of seeded (version {versions['seeded']})"
    ]
    assert specdash("compare", ids[0]).status == 0


def test_verdicts_of_several_pairs_hold_for_all_of_them(
    specdash: Command, engine: object, target: str, workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdash.store.tables import Model, WorkloadVersion
    from tests.helpers.seeding import seed_experiment

    with read_session(engine) as session:  # type: ignore[arg-type]
        model = session.exec(select(Model.id)).one()
        work = session.exec(select(WorkloadVersion.id)).one()
    two = seed_experiment(engine, work, model, (ARM,))  # type: ignore[arg-type]
    three = seed_experiment(engine, work, model, (ARM, "prompt-lookup"))  # type: ignore[arg-type]
    monkeypatch.setattr("specdash.domain.comparing.difference_p", lambda _: 0.03)
    monkeypatch.setattr("specdash.domain.summary.difference_p", lambda _: 0.03)
    alone = specdash("compare", str(two))
    assert "faster" in alone.out
    assert "Holm" not in alone.err
    together = specdash("compare", str(three))
    assert "faster" not in together.out
    assert "Holm at 5 %" in together.err
    assert len(specdash("compare", str(three), "--json").document()["pairs"]) == 3  # type: ignore[index,call-overload]


def test_two_experiments_are_set_against_their_own_off(
    specdash: Command, engine: object, target: str, workload: str
) -> None:
    from specdash.store.tables import Model, WorkloadVersion
    from tests.helpers.seeding import seed_experiment

    with read_session(engine) as session:  # type: ignore[arg-type]
        model = session.exec(select(Model.id)).one()
        work = session.exec(select(WorkloadVersion.id)).one()
    ids = [str(seed_experiment(engine, work, model, (ARM,))) for _ in range(2)]  # type: ignore[arg-type]
    offs, arms = specdash("compare", *ids, "--json").document()["pairs"]  # type: ignore[index,call-overload]
    assert (offs["basis"], offs["verdict"], offs["ratio_low"]) == ("speeds", None, None)
    assert offs["reason"].startswith("Both are off")
    assert (arms["basis"], arms["reason"]) == ("own off", None)
    assert arms["verdict"] is not None
    said = specdash("compare", *ids).err
    assert "off against off: no verdict. Both are off" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mix", "records"), "--mix: 'records' is no weight."),
        (("--mix", "=2"), "--mix: '=2' is no weight."),
        (("--mix", "novels=2"), "There is no category 'novels' to weigh."),
        (("--mix", "records=1e308,letters=1e308"), "The weight of 'records' is 1e+308; above 0 it"),
        (("--mix", "records=1, records =2"), "--mix names 'records' twice."),
        (("--draft", "none", "--draft", "x"), "--draft none stands beside another draft."),
        (("--engine", "vllm"), "The advisor cannot search on vLLM"),
        (("--budget", "100000"), "The budget is 100000 minutes"),
    ],
)
def test_a_question_that_cannot_be_asked_is_wrong_use(
    specdash: Command, target: str, workload: str, words: tuple[str, ...], said: str
) -> None:
    answer = specdash("recommend", "--target", target, "--workload", workload, *words)
    assert answer.status == 2
    assert said in answer.err


def test_a_recommendation_for_people_says_the_answer_first(
    specdash: Command, engine: Engine, tmp_path: Path, workload: str
) -> None:
    from tests.helpers.seeding import scripted_file, seed_model

    methods = {"ngram-simple": {"acceptance": 0.9, "coverage": 0.9, "speed_up": 2.5}}
    path = scripted_file(tmp_path / "models", "paying", methods=methods)
    seed_model(engine, path, "paying")
    answer = specdash(
        "recommend", "--target", "paying", "--workload", workload, "--engine", "scripted"
    )
    assert answer.status == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].startswith("Use ngram-simple:")
    assert "Only 4 prompts counted" in lines[1]
    assert "  Mix: all categories alike." in lines
    assert any(line.startswith(f"  Measured on {platform.node()}") for line in lines)
    assert any(line.startswith("  Still holds: yes. Test again when") for line in lines)
    (header,) = [line for line in lines if line.startswith("category ")]
    rows = lines[lines.index(header) + 1 :]
    assert [row.split()[:2] for row in rows[:2]] == [["letters", "50.00"], ["records", "50.00"]]
    assert "Lookup in the text itself: The best of it, ngram-simple:" in answer.out
    assert "llama-server:" in lines
    assert "drafts on offer: none" in answer.err


@pytest.fixture
def other(engine: Engine, tmp_path: Path, workload: str) -> str:
    """A second scripted model, beside a workload."""
    from tests.helpers.seeding import scripted_file, seed_model

    assert workload == "seeded"
    seed_model(engine, scripted_file(tmp_path / "models", "other"), "other")
    return "other"


@pytest.mark.parametrize(("words", "offered"), [((), "other"), (("--draft", "none"), "none")])
def test_every_registered_draft_is_on_offer_unless_none_is_asked_for(
    specdash: Command, target: str, other: str, words: tuple[str, ...], offered: str
) -> None:
    assert offered in (other, "none")
    asked = ("recommend", "--target", target, "--workload", "seeded", "--engine", "scripted")
    answer = specdash(*asked, *words, "--budget", "0.02")
    assert f"drafts on offer: {offered}\n" in answer.err
