from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from unittest import mock

import pytest
from fixtures.once import made_once
from fixtures.pipeline import (
    SAMPLE,
    SETTINGS,
    copy_documents,
    copy_project,
    engine_at_once,
    engine_here,
)
from fixtures.preloaded import STARTER
from fixtures.rerank_server import RerankServer, reranking
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.tiny_model import build_tiny_model, encoder_settings
from fixtures.user_folders import DATA, USER_FOLDERS
from hypothesis import HealthCheck, settings

from engine.core.environment import QUIET
from engine.core.platforms import SYSTEM
from engine.core.platforms.processes import restore_child_signal
from engine.corpus.chunking import chunking
from engine.corpus.chunking.tokens import TokenCounter
from engine.encoders.deferred import pause_collection
from engine.evaluation.reporting import charts
from engine.project.folder import ProjectFolder
from engine.project.store.store import Store

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
# files that take longest, in the order in which they begin: at the end no worker is left alone with
# one
LONG = (
    "cluster/test_nodes.py",
    "end_to_end/test_judged_comparison.py",
    "end_to_end/test_kill.py",
    "end_to_end/test_export.py",
    "app/project/test_following.py",
    "end_to_end/test_gpu.py",
    "app/steps/test_train.py",
    "app/steps/test_query_sample.py",
    "export/test_searched_elsewhere.py",
    "app/steps/test_search.py",
    "app/test_hostile_text.py",
    "app/steps/test_documents.py",
    "end_to_end/test_detached.py",
    "export/test_two_encoders.py",
    "corpus/sandbox/test_sandbox.py",
    "end_to_end/test_cli_processes.py",
    "app/steps/test_queries.py",
    "end_to_end/test_bad_input.py",
    "export/bundle/test_moving.py",
    "app/test_app.py",
    "end_to_end/test_terminal.py",
    "app/test_garbage.py",
    "end_to_end/test_several_processes.py",
    "app/steps/test_model.py",
    "end_to_end/test_study.py",
    "llm/test_file_model_at_length.py",
    "app/test_leaving.py",
    "end_to_end/test_small_model.py",
    "end_to_end/test_export_broken_off.py",
    "end_to_end/test_report_page.py",
    "cli/test_judge_command.py",
    "end_to_end/test_incremental.py",
    "queries/test_auto_backend.py",
    "app/dialogs/test_export.py",
    "app/steps/test_search_filters.py",
    "end_to_end/test_shared_project.py",
    "runs/test_watching.py",
    "app/settings/test_screen.py",
    "training/test_distributed.py",
)
# As in the product's own processes. Torch, which some test modules import, reads it once: spinning
# OpenMP threads of four workers on two cores cost seven times what the trainings of tests do.
os.environ.setdefault("OMP_WAIT_POLICY", QUIET["OMP_WAIT_POLICY"])
# The app draws what a test looks at, and not each state in between.
os.environ.setdefault("TEXTUAL_FPS", "15")
restore_child_signal()  # tests ask how their processes ended, whatever started pytest
settings.register_profile(
    "no wall time", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no wall time")
draw_svg = charts.draw_svg


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist are forks of one process that has imported the libraries of models.

    What libraries read or write in the user's folders, that process has in a folder of its own.
    """
    if SYSTEM != "linux" or hasattr(config, "workerinput") or not config.getoption("tx", None):
        return
    folder = tempfile.mkdtemp()
    config.add_cleanup(partial(shutil.rmtree, folder))
    STARTER.install(**dict.fromkeys(USER_FOLDERS, folder))
    STARTER.forks_code = True
    config.add_cleanup(STARTER.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Python looks for no garbage while test modules are imported, nor later among what they
    have imported, and seldom among the objects of the libraries that tests load.
    """
    with pause_collection():
        yield
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files of `LONG` first; everything else stays in its order.

    A test that is tried again says why it depends on time, and one that cannot pass on Windows says
    why. Those of the data sets are skipped where these are missing.
    """
    root = Path(__file__).parent
    turns = {root / name: turn for turn, name in enumerate(LONG)}
    items.sort(key=lambda item: turns.get(item.path, len(LONG)))
    without_data = pytest.mark.skipif(
        not SHARED_DATA.is_dir(), reason="the data sets, ../shared/data, are not here"
    )
    for item in items:
        if "shared" in item.keywords:
            item.add_marker(without_data)
        if any(not mark.kwargs.get("reason") for mark in item.iter_markers("flaky")):
            raise pytest.UsageError(
                f"{item.nodeid}: flaky needs a reason=…, why it depends on time"
            )
        for mark in item.iter_markers("posix"):
            reason = mark.kwargs["reason"]
            item.add_marker(pytest.mark.skipif(SYSTEM == "windows", reason=f"not there: {reason}"))


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test, nor a process that it starts, reads or writes the user's own folders."""
    root = tmp_path_factory.mktemp("user")
    former = {name: os.environ.get(name) for name in USER_FOLDERS}
    for name in USER_FOLDERS:
        folder = root / name.lower()
        folder.mkdir()
        os.environ[name] = str(folder)
    # Projects that tests of several workers share point to graphs there.
    graphs = made_once(
        tmp_path_factory,
        "query-encoders",
        Path.mkdir,
    )
    data = root / DATA.lower() / "bmembed"
    data.mkdir()
    if SYSTEM != "windows":  # where links need a right
        (data / "query-encoders").symlink_to(graphs)
    yield root
    for name, value in former.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="session", autouse=True)
def processes_start_loaded(user_folders: Path) -> Iterator[None]:
    """Processes of the engine are forks of one that has imported the libraries of models."""
    if SYSTEM != "linux":
        yield
        return
    STARTER.install()
    STARTER.forks_readers = True
    yield
    STARTER.close()


@pytest.fixture(scope="session", autouse=True)
def tokenizers_read_once() -> Iterator[None]:
    """Chunkers of one tokenizer share what they have read of it, as do all documents of a run."""

    @lru_cache(maxsize=8)
    def read(file: Path, *_state: int) -> TokenCounter:
        return TokenCounter(file)

    def find_counter(file: Path) -> TokenCounter:
        if not file.is_file():
            return TokenCounter(file)
        status = file.stat()
        return read(
            file,
            status.st_mtime_ns,
            status.st_size,
        )

    with mock.patch.object(chunking, "TokenCounter", find_counter):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have a test, and fixtures that it is the first to ask for, as its marks say.

    Processes of one marked `cold` start as a user's do; of one marked `warm`, code that Python is
    given is run by forks, too. Pages that this process writes have empty charts, except in tests
    marked `charts`: drawing takes matplotlib most of the time of an evaluation of a small project.
    Evaluations in processes of their own have their charts. No fixture: those that every test asks
    for take a millisecond of each of thousands.
    """
    marks = {mark.name for mark in item.iter_markers()}
    STARTER.enabled = "cold" not in marks
    STARTER.forks_code = "warm" in marks
    charts.draw_svg = draw_svg if "charts" in marks else leave_empty


def leave_empty(
    title: str,
    height: float,
    draw: object,
) -> str:
    """Stand in for `draw_svg`."""
    return "<svg></svg>"


@pytest.fixture
def own_data_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The place of the user's data, where no graph is that another test has left."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv(DATA, str(folder))
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the data sets that are kept next to the repository."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the data sets are not here: {SHARED_DATA} is missing")
    return SHARED_DATA


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that tests must not change."""
    return made_once(tmp_path_factory, "tiny", build_tiny_model)


@pytest.fixture(scope="module")
def tiny_gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model's file of random weights that tests must not change."""
    return build_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def new_built(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """A small real project: a few of the sample's documents and its judged questions.

    Nothing was run yet.
    """

    def make(path: Path) -> None:
        ProjectFolder.create(path, {**SETTINGS, "encoder": encoder_settings(tiny_model)})
        copy_documents(
            path / "documents",
            ("incidents", "policies"),
            12,
        )
        engine_here(
            "import-judgments",
            str(path),
            str(SAMPLE / "questions.jsonl"),
        )

    return made_once(tmp_path_factory, "new", make)


@pytest.fixture(scope="session")
def finished_built(tmp_path_factory: pytest.TempPathFactory, new_built: Path) -> Path:
    """The same after one whole run of the real engine."""

    def make(path: Path) -> None:
        shutil.copytree(new_built, path)
        engine_at_once("adapt", str(path))

    return made_once(tmp_path_factory, "finished", make)


@pytest.fixture
def adapted(finished_built: Path, tmp_path: Path) -> ProjectFolder:
    """A copy of the project after an adaptation, with base in use: its judged questions are too
    few.
    """
    return ProjectFolder(copy_project(finished_built, tmp_path / "adapted"))


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """A new project without documents."""
    return ProjectFolder.create(tmp_path / "project", {})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database without a project."""
    made = Store.create(tmp_path / "project.db")
    yield made
    made.close()


@pytest.fixture
def rerank_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RerankServer]:
    """A server of a reranker that is asked again after 10 ms."""
    monkeypatch.setattr("engine.endpoint.model_server.PAUSE_SECONDS", 0.01)
    with reranking() as server:
        yield server


@pytest.fixture
def no_endpoint_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to a server of language models carry no key of the user's."""
    monkeypatch.delenv("BMEMBED_ENDPOINT_KEY", raising=False)


@pytest.fixture
def without_llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this process nor those that it starts can import llama_cpp, as where the extra
    `llm` is not installed.
    """
    folder = tmp_path / "blocked"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['llama_cpp'] = None\n")
    monkeypatch.setitem(sys.modules, "llama_cpp", None)  # type: ignore[arg-type]
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 512 KiB."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    if shutil.which("mount") is None or os.name != "posix":
        pytest.skip("there is no mount command to make a small disk with")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(folder: Path, leave: int = 0) -> None:
    """Write until no byte is left, then free about `leave` bytes."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))


@pytest.fixture
def disk_filler() -> object:
    """`fill_disk`, for tests that run a small disk full."""
    return fill_disk
