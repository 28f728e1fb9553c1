"""The sandbox: what code in it can see, write, reach and outlive."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from generators.dataset import UserError
from suppression_bench.leaderboard import sandbox

LIMITS = sandbox.Limits()


@pytest.fixture(params=[pytest.param("bubblewrap", marks=pytest.mark.sandbox), "unsandboxed"])
def kind(request):
    return request.param


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs Python code the way foreign code is run, in place of `bench`."""
    folder = tmp_path / "work"
    (folder / "home").mkdir(parents=True)

    def run_code(code, kind, limits=LIMITS):
        env = sandbox.environment(folder / "home", folder / "data", 1)
        script = folder / "python"
        script.write_text(f"#!{os.path.realpath('/proc/self/exe')}\n" + code)
        script.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(script))
            exit_code = sandbox.run([], folder, env, limits, kind)
        return exit_code, (folder / "log.txt").read_text()

    return run_code


def test_foreign_code_sees_no_secret_of_the_environment(run, kind, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    code, log = run("import os; print(sorted(os.environ), os.environ['HOME'])", kind)
    assert code == 0 and "SECRET_TOKEN" not in log and "home" in log


def test_its_memory_and_time_are_limited(run, kind):
    code, log = run("x = bytearray(2 * 2**30)", kind, sandbox.Limits(1.0, 1.0))
    assert code == 1 and "MemoryError" in log
    began = time.monotonic()
    code, _ = run("import time; time.sleep(60)", kind, sandbox.Limits(1 / 3600))
    assert code is None and time.monotonic() - began < 20


def test_its_children_end_with_it(run, kind):
    marker = f"300.{os.getpid()}"
    code, _ = run(
        f"import subprocess; subprocess.Popen(['sleep', '{marker}'], start_new_session={kind == 'bubblewrap'})", kind
    )
    assert code == 0
    for _ in range(50):
        if marker not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout:
            return
        time.sleep(0.1)
    raise AssertionError("the child still runs")


@pytest.mark.sandbox
def test_it_has_no_network(run):
    code, log = run("import socket; socket.create_connection(('127.0.0.1', 9), 1)", "bubblewrap")
    assert code == 1 and ("unreachable" in log or "refused" in log)
    _, log = run("import socket; print([name for _, name in socket.if_nameindex()])", "bubblewrap")
    assert "['lo']" in log


@pytest.mark.sandbox
@pytest.mark.parametrize("path", ["/usr/planted", "/etc/planted", "{package}/planted.py"])
def test_it_writes_its_own_folder_only(run, path):
    import suppression_bench

    path = path.format(package=os.path.dirname(suppression_bench.__file__))
    code, _ = run(f"open('here', 'w').write('x'); open({path!r}, 'w')", "bubblewrap")
    assert code == 1 and not os.path.exists(path)


@pytest.mark.sandbox
def test_it_sees_no_file_or_process_of_the_user(run, tmp_path):
    (tmp_path / "secret").write_text("hunter2")
    code, _ = run(f"open({str(tmp_path / 'secret')!r})", "bubblewrap")
    assert code == 1
    _, log = run(
        f"import os; print(os.path.exists('/home'), os.path.exists('{Path.home()}/.ssh'), os.listdir('/tmp'))",
        "bubblewrap",
    )
    assert "False False" in log
    _, log = run("import os; print('processes', sum(name.isdigit() for name in os.listdir('/proc')))", "bubblewrap")
    assert int(log.split("processes")[1]) < 5


def test_the_package_sees_what_the_machine_gives(monkeypatch):
    """Foreign code needs bubblewrap or a closed container; the package's own methods run without."""
    monkeypatch.setattr(sandbox, "fault", lambda: "bubblewrap (bwrap) is not installed")
    monkeypatch.setattr(sandbox, "_is_closed_container", lambda: False)
    assert sandbox.choose(has_own_files=False) == "package"
    assert sandbox.choose(has_own_files=True, trusted=True) == "unsandboxed"
    with pytest.raises(UserError) as error:
        sandbox.choose(has_own_files=True)
    assert error.value.exit_code == 4
    monkeypatch.setattr(sandbox, "_is_closed_container", lambda: True)
    assert sandbox.choose(has_own_files=True) == "container"
    monkeypatch.setattr(sandbox, "fault", lambda: "")
    assert sandbox.choose(has_own_files=False) == sandbox.choose(True, trusted=True) == "bubblewrap"


def test_a_bubblewrap_that_fails_is_quoted(monkeypatch, tmp_path):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "uid map: Permission denied" in sandbox.fault()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "not installed" in sandbox.fault()
