"""The command line: what it prints, what it starts, and every way of asking it wrongly."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import run_kernel

import moe_lab
from moe_lab import cli
from moe_lab.core.errors import MissingFileError
from moe_lab.course import doctor, jupyter, playground


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run in this process."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TestAsking:
    def test_version(self, capsys):
        assert call(capsys, "--version") == (0, f"moe-lab {moe_lab.__version__}\n", "")

    def test_help_names_every_command(self, capsys):
        code, out, err = call(capsys, "--help")
        assert (code, err) == (0, "")
        assert all(command in out for command in ("lab", "playground", "demo", "reproduce", "prune", "class", "doctor"))

    def test_module_and_script_are_the_same_program(self):
        script = Path(sys.executable).with_name("moe-lab")
        for command in ([str(script)], [sys.executable, "-m", "moe_lab"]):
            done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
            assert done.stdout == f"moe-lab {moe_lab.__version__}\n"


class TestAskingWrongly:
    @pytest.mark.parametrize(
        ("arguments", "code", "says"),
        [
            (["nothing"], 2, "No such command 'nothing'"),
            (["lab", "--nothing"], 2, "No such option"),
            (["lab", "--port", "many"], 2, "Invalid value for '--port'"),
            (["lab", "--port", "70000"], 2, "Invalid value for '--port'"),
            (["lab", "/dev/null"], 1, "the course needs a writable folder: got /dev/null"),
            (["doctor", "--data", "/no/such/folder"], 1, "data must be a folder: got /no/such/folder"),
            (["playground", "--map", "now"], 2, "unexpected extra argument"),
            (["playground", "--out", "/no/such/folder/page.html"], 1, "the folder of a file to save must exist"),
            (["demo", "--trials", "few"], 2, "Invalid value for '--trials'"),
            (["demo", "--trials", "0"], 1, "trials"),
            (["demo", "--seed", "-1"], 1, "seed"),
            (["demo", "--device", "abacus"], 1, "device must be"),
            (["demo", "--out", "/dev/null"], 1, "/dev/null"),
        ],
    )
    def test_is_one_sentence_on_stderr(self, capsys, arguments, code, says):
        ended, out, err = call(capsys, *arguments)
        assert (ended, out) == (code, "")
        assert err.startswith("moe-lab: ")
        assert err.count("\n") == 1
        assert says in err

    def test_a_port_in_use_is_one_sentence(self, capsys, tmp_path):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            code, _, err = call(capsys, "lab", "--no-browser", "--port", str(port), str(tmp_path / "mine"))
        assert code == 1
        assert err.startswith(f"moe-lab: port must be free and allowed: got port={port} on 127.0.0.1 (")
        assert not (tmp_path / "mine").exists()

    def test_without_jupyterlab_it_says_what_to_install(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setitem(jupyter.NEEDED, "a_module_that_is_not_installed", "a part of the course")
        code, _, err = call(capsys, "lab", str(tmp_path / "mine"))
        assert code == 1
        assert err == (
            "moe-lab: the course needs a_module_that_is_not_installed: install with pip install 'moe-lab[lab]'\n"
        )

    @pytest.mark.parametrize("bug", [ValueError, RuntimeError, OSError, KeyError])
    def test_a_bug_keeps_its_traceback(self, monkeypatch, bug):
        """Also one of a kind that user errors are: torch raises RuntimeErrors for shapes that do not fit."""

        def report(folder):
            raise bug("mat1 and mat2 shapes cannot be multiplied")

        monkeypatch.setattr(doctor, "report", report)
        with pytest.raises(bug, match="mat1 and mat2"):
            cli.main(["doctor"])

    def test_an_error_about_a_file_is_one_sentence(self, capsys, monkeypatch):
        monkeypatch.setattr(doctor, "report", lambda folder: Path("/no/such/file").read_text())
        assert call(capsys, "doctor") == (1, "", "moe-lab: No such file or directory: /no/such/file\n")

    def test_debugging_shows_the_traceback_of_any_error(self, monkeypatch):
        wrong = ["doctor", "--data", "/no/such/folder"]
        monkeypatch.setenv("MOE_LAB_DEBUG", "1")
        with pytest.raises(MissingFileError):
            cli.main(wrong)
        monkeypatch.setenv("MOE_LAB_DEBUG", "0")  # which --debug changes, and monkeypatch restores
        with pytest.raises(MissingFileError):
            cli.main(["--debug", *wrong])


class TestPlayground:
    def test_writes_a_page_here_and_opens_it(self, capsys, monkeypatch, tmp_path):
        opened: list[str] = []
        monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
        monkeypatch.chdir(tmp_path)
        code, out, err = call(capsys, "playground", "--map")
        assert (code, err) == (0, "") and opened == [(tmp_path / "map.html").as_uri()]
        assert out == f"{tmp_path / 'map.html'} is open in your browser, and needs nothing else.\n"
        assert "<!doctype html>" in (tmp_path / "map.html").read_text(encoding="utf-8").lower()[:100]

    def test_writes_it_elsewhere_and_opens_nothing(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setattr(webbrowser, "open", lambda address: pytest.fail("it opened a browser"))
        for out, name in ((tmp_path, "playground.html"), (tmp_path / "mine.html", "mine.html")):
            assert call(capsys, "playground", "--out", str(out))[0] == 0
            assert (tmp_path / name).is_file()

    def test_without_widgets_it_says_what_to_install(self, capsys, monkeypatch):
        monkeypatch.setattr(playground, "NEEDED", ("a_module_that_is_not_installed",))
        assert call(capsys, "playground") == (
            1,
            "",
            "moe-lab: the playground needs a_module_that_is_not_installed: install with pip install 'moe-lab[lab]'\n",
        )


class TestDoctor:
    def test_says_what_is_there(self, capsys, shared_data):
        code, out, err = call(capsys, "doctor", "--data", str(shared_data / "mnist-t10k"))
        assert (code, err) == (0, "")
        rows = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", out, re.M))
        assert re.match(r"\d+\.\d+", rows["torch"])
        assert re.match(r"\d+\.\d+", rows["ipywidgets"])
        assert re.match(r"cpu|cuda|mps", rows["auto"])
        commands = ("lab", "playground", "demo", "reproduce", "prune", "class", "make site")
        assert {rows[command] for command in commands} == {"yes"}
        assert "10,000 test images" in rows["mnist"]
        assert "training" not in rows["mnist"]

    def test_says_what_is_missing_and_which_commands_need_it(self, monkeypatch):
        wanted = ["torch>=2", "no-such-thing>=3.1; extra == 'lab'", "none-either>=1; extra == 'class'"]
        monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
        assert dict(doctor.installed())["no-such-thing"] == "missing: pip install 'no-such-thing>=3.1'"
        rows = dict(doctor.commands())
        assert rows["lab"] == "no: no-such-thing missing; install with  pip install 'moe-lab[lab]'"
        assert rows["class, to grade"] == "no: none-either missing; install with  pip install 'moe-lab[class]'"
        assert rows["demo"] == rows["prune"] == "yes"

    def test_says_when_widgets_are_too_old(self, monkeypatch):
        monkeypatch.setattr("importlib.metadata.version", lambda name: "7.6.5")
        assert dict(doctor.commands())["lab"] == "no: ipywidgets must be at least 7.7: got 7.6.5"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, str, Path]]:
    """`moe-lab lab` as a reader starts it: the process, its address and the folder."""
    port, folder = free_port(), tmp_path / "mine"
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    process = subprocess.Popen(
        [sys.executable, "-m", "moe_lab", "lab", "--no-browser", "--port", str(port), str(folder)],
        env={**os.environ, **own, "JUPYTER_TOKEN": "opensesame", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process, f"http://127.0.0.1:{port}", folder
    finally:
        process.kill()
        process.communicate()


def status(address: str) -> int:
    """The HTTP status of an address; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


class TestLab:
    def test_a_kernel_imports_what_labs_need_before_a_cell_does(self, monkeypatch):
        monkeypatch.setenv("JUPYTER_PATH", str(jupyter.CONFIG))
        printed: list[str] = []
        with run_kernel() as client:
            client.execute_interactive(
                "import sys\nprint({'torch', 'xarray', 'moe_lab_widgets.engine.lab'} <= {*sys.modules})",
                output_hook=lambda message: printed.append(message["content"].get("text", "").strip()),
                timeout=60,
            )
        assert "True" in printed

    def test_serves_the_course_to_those_with_the_token(self, served):
        process, address, folder = served
        notebook = f"{address}/api/contents/00_start_here.ipynb"
        deadline = time.monotonic() + 180
        while status(f"{notebook}?token=opensesame") != 200:
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < deadline, "JupyterLab did not answer within three minutes"
            time.sleep(0.2)
        assert (folder / "00_start_here.ipynb").exists()
        assert status(notebook) == 403
        with urllib.request.urlopen(f"{address}/lab/tree/00_start_here.ipynb?token=opensesame", timeout=10) as page:
            assert "@jupyterlab/apputils-extension:announcements" in page.read().decode()  # switched off: no question
        assert status(f"{address}/api/contents/../pyproject.toml?token=opensesame") == 404
        with urllib.request.urlopen(f"{address}/api/kernelspecs/python3?token=opensesame", timeout=10) as found:
            assert "--ext=moe_lab.core.preload" in json.load(found)["spec"]["argv"]

        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[0]
        assert f"The course is in {folder.resolve()}." in said
        assert "Traceback" not in said
        assert status(notebook) == 0
