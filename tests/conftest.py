import atexit
import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tiny import write_tiny_model

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["UPSOLVE_CHECK"] = "always"  # checks of models find what is wrong now, not what was right before
os.fsync = lambda _file: None  # tests lose no power, and a disk takes milliseconds for each of thousands of files
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes of pytest on two cores, and the same sums everywhere
gc.disable()  # until all tests are collected: modules and tests are no garbage, and searching them takes a fifth of the time


def pytest_configure(config):
    """Hypothesis: a busy machine is no failure; new examples in each run only beside the slow tests."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings.register_profile(
        "calm", deadline=None, suppress_health_check=checks, derandomize="not slow" in config.option.markexpr
    )
    settings.load_profile("calm")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """What was collected stays until the end, where duckdb prints what was not freed of its connections."""
    if not session.config.option.collectonly:
        atexit.register(gc.unfreeze)
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests on downloaded data sets are slow ones: a checkout comes without the data."""
    for item in items:
        if "real_data" in item.fixturenames:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def started_scripts_find_their_folder():
    """The command line, run in this process, keeps interpreters that it starts from importing files of the current folder."""
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(autouse=True, scope="session")
def shipped_archives_are_read_once():
    """Groups of the archives that come with the package never change: each process of pytest reads them once, in a second."""
    from upsolve.archive import groups, split, store
    from upsolve.archive.places import SHIPPED

    known = {}

    def read_once(parts, tasks, **how):
        files = [file for some in parts.values() for file in some]
        if not files or not any(files[0].is_relative_to(folder) for folder in SHIPPED.values()):
            return groups.open_groups(parts, tasks, **how)
        key = (*files, *how.items())
        if key not in known:
            known[key] = groups.open_groups(parts, tasks, **how)
        return [*known[key]]

    with pytest.MonkeyPatch.context() as patch:
        for module in (split, store):
            patch.setattr(module, "open_groups", read_once)
        yield


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A folder with a random Llama of two layers and a byte-level tokenizer: the real classes, no download."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the system's browser: Playwright's own is not downloaded."""
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync")


@pytest.fixture(scope="module")
def chromium():
    """One browser for the tests of a file: Playwright's event loop, while it runs, forbids others in its process."""
    from playwright.sync_api import sync_playwright

    binary = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if binary is None:
        pytest.skip(f"no browser on this machine ({', '.join(BROWSERS)}); on Debian: apt-get install chromium")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=binary, args=[*QUIET], timeout=120_000)
        yield browser
        browser.close()


@pytest.fixture
def importers():
    """Skip a test of the pipeline that imports something where the importers beside it are missing."""
    pytest.importorskip("upsolve.importers")


@pytest.fixture
def real_data():
    """The folder of downloaded data sets; tests that need it are skipped where it is absent."""
    root = Path(__file__).parents[1]
    folder = Path(os.environ.get("UPSOLVE_DATA") or root.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real data sets are not at {folder} (set UPSOLVE_DATA)")
    return folder
