from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine
from sqlmodel import select

from specdash.domain.workload import Message, Prompt, Workload
from specdash.domain.workload_files import dump_workload
from specdash.errors import NotFoundError, UsageError
from specdash.settings import SHIPPED_WORKLOADS
from specdash.store.queries import get_workload, list_workloads, revision
from specdash.store.session import read_session
from specdash.store.tables import PromptRow
from specdash.store.workloads import (
    resolve_workload,
    save_workload,
    set_weights,
    sync_shipped,
)


def _workload(*questions: str, name: str = "faq", title: str = "Questions") -> Workload:
    prompts = tuple(
        Prompt(f"q{i}", "even" if i % 2 == 0 else "odd", (Message("user", text),))
        for i, text in enumerate(questions)
    )
    return Workload(name, prompts, title)


def _revision(engine: Engine) -> int:
    with read_session(engine) as session:
        return revision(session)


def _current(engine: Engine, name: str) -> tuple[str, str]:
    with read_session(engine) as session:
        view = resolve_workload(session, name)
        return view.version, view.source


def test_the_shipped_workloads_are_stored_once(engine: Engine) -> None:
    assert sync_shipped(engine) == (
        "chat",
        "code-edit",
        "extract",
        "rag",
        "reasoning",
        "summarise",
    )
    before = _revision(engine)
    assert sync_shipped(engine) == ()
    assert _revision(engine) == before
    with read_session(engine) as session:
        views = list_workloads(session)
    assert {v.source for v in views} == {"shipped"}
    assert all(v.is_current and v.n_prompts >= 10 for v in views)


def test_four_starts_at_once_store_one_version(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "faq.yaml").write_text(dump_workload(_workload("one", "two")), "utf-8")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sync_shipped(engine, tmp_path), range(4)))
    with read_session(engine) as session:
        assert len(list_workloads(session, all_versions=True)) == 1
        assert len(session.exec(select(PromptRow)).all()) == 2


def test_a_shipped_file_that_is_broken_is_named(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "faq.yaml").write_text("prompts:\n- {category: x}\n", "utf-8")
    with pytest.raises(UsageError) as error:
        sync_shipped(engine, tmp_path)
    assert error.value.message.startswith("faq.yaml was not imported. line 2: exactly one of")


def test_what_is_stored_is_what_the_file_says(engine: Engine) -> None:
    sync_shipped(engine)
    with read_session(engine) as session:
        stored = get_workload(session, resolve_workload(session, "extract").workload_id)
    assert dump_workload(stored) == (SHIPPED_WORKLOADS / "extract.yaml").read_text("utf-8")


def test_a_new_shipped_version_becomes_current_and_the_old_one_stays(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "faq.yaml"
    file.write_text(dump_workload(_workload("one", "two")), "utf-8")
    assert sync_shipped(engine, tmp_path) == ("faq",)
    first, _ = _current(engine, "faq")
    file.write_text(dump_workload(_workload("one", "three")), "utf-8")
    assert sync_shipped(engine, tmp_path) == ("faq",)
    second, _ = _current(engine, "faq")
    assert second != first
    with read_session(engine) as session:
        assert not resolve_workload(session, f"faq@{first}").is_current
        assert len(list_workloads(session, all_versions=True)) == 2


def test_a_new_shipped_version_does_not_push_aside_an_own_edit(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "faq.yaml"
    file.write_text(dump_workload(_workload("one")), "utf-8")
    sync_shipped(engine, tmp_path)
    own = save_workload(engine, _workload("mine"))
    file.write_text(dump_workload(_workload("one", "two")), "utf-8")
    assert sync_shipped(engine, tmp_path) == ("faq",)
    assert _current(engine, "faq") == (own.version, "own")


def test_the_same_prompts_are_the_same_row(engine: Engine) -> None:
    first = save_workload(engine, _workload("one", "two"))
    again = save_workload(engine, _workload("one", "two", title="A better title"))
    assert again.workload_id == first.workload_id
    assert again.title == "A better title"
    assert again.created_at == first.created_at
    with read_session(engine) as session:
        assert len(session.exec(select(PromptRow)).all()) == 2


def test_saving_an_old_version_again_makes_it_current(engine: Engine) -> None:
    first = save_workload(engine, _workload("one"))
    second = save_workload(engine, _workload("two"))
    assert _current(engine, "faq") == (second.version, "own")
    save_workload(engine, _workload("one"))
    assert _current(engine, "faq") == (first.version, "own")
    with read_session(engine) as session:
        assert [v.version for v in list_workloads(session)] == [first.version]


def test_a_view_tells_prompts_categories_and_weights(engine: Engine) -> None:
    view = save_workload(engine, _workload("a", "b", "c"))
    assert (view.name, view.n_prompts, view.categories) == ("faq", 3, ("even", "odd"))
    assert (view.weights, view.source, view.n_experiments) == ({}, "own", 0)


def test_raw_text_and_token_limits_survive(engine: Engine) -> None:
    workload = Workload(
        "raw", (Prompt("a", "x", text="Once upon", max_tokens=7), Prompt("b", "x", text=" a time"))
    )
    view = save_workload(engine, workload)
    with read_session(engine) as session:
        assert get_workload(session, view.workload_id) == workload


def test_an_empty_workload_is_refused_in_words(engine: Engine) -> None:
    with pytest.raises(UsageError) as error:
        save_workload(engine, Workload("faq", ()))
    assert str(error.value) == "The workload 'faq' holds no prompt. Add at least one prompt."
    with read_session(engine) as session:
        assert list_workloads(session, all_versions=True) == []


def test_a_workload_is_found_by_name_version_beginning_and_id(engine: Engine) -> None:
    old = save_workload(engine, _workload("one"))
    new = save_workload(engine, _workload("two"))
    with read_session(engine) as session:
        assert resolve_workload(session, "faq").version == new.version
        assert resolve_workload(session, f"faq@{old.version}").version == old.version
        assert resolve_workload(session, f"faq@{old.version[:6]}").version == old.version
        assert resolve_workload(session, str(old.workload_id)).version == old.version
        assert resolve_workload(session, old.workload_id).version == old.version


@pytest.mark.parametrize("ref", ["nothing", "faq@ffffffffffffff", "faq@%", "", "@", "x" * 5000])
def test_an_unknown_name_lists_the_known_ones(engine: Engine, ref: str) -> None:
    save_workload(engine, _workload("one"))
    with read_session(engine) as session, pytest.raises(NotFoundError) as error:
        resolve_workload(session, ref)
    assert error.value.message == f"There is no workload '{ref[:100]}'."
    assert error.value.hint == "There are: faq."


@pytest.mark.parametrize("ref", ["0", "99", "-1", 10**30])
def test_an_unknown_id_is_not_found(engine: Engine, ref: str | int) -> None:
    with read_session(engine) as session, pytest.raises(NotFoundError):
        resolve_workload(session, ref)


def test_an_empty_store_says_how_to_import(engine: Engine) -> None:
    with read_session(engine) as session, pytest.raises(NotFoundError) as error:
        resolve_workload(session, "faq")
    assert error.value.hint == "Import one: workloads import FILE."


def test_a_beginning_that_fits_two_versions_is_refused(engine: Engine) -> None:
    seen: dict[str, str] = {}
    for number in range(40):  # sixteen first digits: two versions share one before long
        version = save_workload(engine, _workload(f"question {number}")).version
        if version[0] in seen:
            break
        seen[version[0]] = version
    with read_session(engine) as session, pytest.raises(UsageError) as error:
        resolve_workload(session, f"faq@{version[0]}")
    assert error.value.message == f"Several versions of 'faq' begin with '{version[0]}'."


def test_weights_are_kept_with_the_version(engine: Engine) -> None:
    view = save_workload(engine, _workload("a", "b"))
    before = _revision(engine)
    assert set_weights(engine, view.workload_id, {"even": 3.0, "odd": 1.0}).weights == {
        "even": 3.0,
        "odd": 1.0,
    }
    assert _revision(engine) == before + 1
    with read_session(engine) as session:
        assert resolve_workload(session, "faq").weights == {"even": 3.0, "odd": 1.0}
    assert set_weights(engine, view.workload_id, {}).weights == {}


def test_importing_the_same_prompts_without_labels_keeps_the_labels(engine: Engine) -> None:
    view = save_workload(engine, _workload("a", "b"))
    set_weights(engine, view.workload_id, {"even": 3.0})
    again = save_workload(engine, _workload("a", "b", title=""))
    assert (again.title, again.weights) == ("Questions", {"even": 3.0})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"prime": 1.0}, "There is no category 'prime' to weigh."),
        ({"even": -1.0}, "The weight of 'even' is -1.0; it must be 0 or more."),
        ({"even": float("nan")}, "The weight of 'even' is nan; it must be 0 or more."),
        ({"even": 0.0, "odd": 0.0}, "All weights are 0."),
    ],
)
def test_unfit_weights_change_nothing(
    engine: Engine, weights: dict[str, float], message: str
) -> None:
    view = save_workload(engine, _workload("a", "b"))
    with pytest.raises(UsageError) as error:
        set_weights(engine, view.workload_id, weights)
    assert error.value.message == message
    with read_session(engine) as session:
        assert resolve_workload(session, "faq").weights == {}


def test_weights_of_an_unknown_workload_are_not_found(engine: Engine) -> None:
    with pytest.raises(NotFoundError):
        set_weights(engine, 12, {})
