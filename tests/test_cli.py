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
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import websocket
from jupyter_client.manager import run_kernel

import moe_lab
from moe_lab import cli
from moe_lab.core.errors import MissingFileError
from moe_lab.core.installing import how_to_install, how_to_install_package
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
            (["playground", "map"], 1, "the Labs with a page are RouterAlignmentLab, PhaseTransitionLab"),
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
            "moe-lab: the course needs a_module_that_is_not_installed: "
            f"install with {' '.join(how_to_install('lab').split())}\n"
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
        code, out, err = call(capsys, "playground", "phase-transition")
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
            "moe-lab: the playground needs a_module_that_is_not_installed: "
            f"install with {' '.join(how_to_install('lab').split())}\n",
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
        told = how_to_install_package("no-such-thing", ">=3.1")
        assert dict(doctor.installed())["no-such-thing"] == f"missing: {told}" and told.endswith('"no-such-thing>=3.1"')
        rows = dict(doctor.commands())
        assert rows["lab"] == f"no: no-such-thing missing; install with  {how_to_install('lab')}"
        assert rows["class, to grade"] == f"no: none-either missing; install with  {how_to_install('class')}"
        assert rows["demo"] == rows["prune"] == "yes"

    def test_says_when_widgets_are_too_old(self, monkeypatch):
        monkeypatch.setattr("importlib.metadata.version", lambda name: "7.6.5")
        assert dict(doctor.commands())["lab"] == "no: ipywidgets must be at least 7.7: got 7.6.5"


def program(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    settings: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True, "stdout": subprocess.PIPE, **how}
    return subprocess.run([sys.executable, "-m", "moe_lab", *arguments], check=False, **settings)


@pytest.mark.skipif(sys.platform != "linux", reason="the folders and devices of Linux")
class TestWithoutRoom:
    """/sys cannot be written to, by anybody; a limit of 0 bytes on files is a device that is full."""

    NOWHERE: ClassVar = {"HOME": "/sys", "XDG_CONFIG_HOME": "/sys", "XDG_CACHE_HOME": "/sys"}

    def rows(self, **how: Any) -> dict[str, str]:
        out = program("doctor", **how).stdout
        return dict(re.findall(r"^  (\S.*?)  +(\S.*)$", out.partition("Commands")[2].partition("Device")[0], re.M))

    def test_without_a_home_the_course_still_starts_and_says_where_it_keeps_its_files(self, tmp_path):
        rows = self.rows(cwd=tmp_path, env={**os.environ, **self.NOWHERE})
        said = r"yes, with JupyterLab's files in a temporary folder: /sys/\.?jupyter cannot be written to \(.+\)"
        assert re.fullmatch(said, rows.pop("lab"))
        assert set(rows.values()) == {"yes"}

    @pytest.mark.parametrize("cause", ["Permission denied", "File too large"])
    def test_what_writes_into_the_present_folder_says_that_it_cannot(self, tmp_path, cause):
        full = cause == "File too large"
        import resource  # which Windows lacks

        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)) if full else None
        rows = self.rows(cwd=tmp_path if full else "/sys", preexec_fn=limit)
        no = {name for name, said in rows.items() if said.startswith("no: the present folder cannot be written to")}
        assert no == {"lab", "playground", "demo", "reproduce", "make site"}
        assert all(f"({cause}); call it in another" in rows[name] for name in no)
        assert rows["prune"] == rows["class"] == "yes"

    def test_without_the_course_or_a_part_of_the_project_a_command_does_not_run(self, monkeypatch):
        def none(*_: Any) -> Path:
            raise MissingFileError("the course's notebooks must be beside the package: found none")

        monkeypatch.setattr(doctor, "notebooks_folder", none)
        command = doctor.Command(parts=("moe_lab_of_tomorrow",))
        monkeypatch.setattr(doctor, "COMMANDS", {**doctor.COMMANDS, "demo": command})
        rows = dict(doctor.commands())
        assert rows["class"] == "no: the course's notebooks must be beside the package: found none"
        assert rows["demo"] == "no: moe_lab_of_tomorrow is not importable" and rows["prune"] == "yes"

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    @pytest.mark.parametrize("arguments", [["doctor"], ["reproduce", "--list"], ["--help"], ["--version"]], ids=str)
    def test_output_to_a_full_device_ends_in_a_sentence(self, arguments, unbuffered):
        with open("/dev/full", "w") as full:
            done = program(*arguments, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
        assert (done.returncode, done.stderr) == (
            1, "moe-lab: the output could not be written (No space left on device)\n"
        )  # fmt: skip

    @pytest.mark.parametrize("arguments", [["doctor"], ["reproduce", "--list"], ["--help"]], ids=str)
    def test_output_to_a_pipe_without_a_reader_ends_in_a_sentence(self, arguments):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as closed:
            done = program(*arguments, stdout=closed)
        assert (done.returncode, done.stderr) == (1, "moe-lab: the output could not be written (Broken pipe)\n")


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen, str, Path]]:
    """`moe-lab lab` as a reader starts it, with a home of its own or one that cannot be written to: the process, its
    address and the folder.
    """
    port, folder, closed = free_port(), tmp_path / "mine", getattr(request, "param", False)
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME") if not closed}
    process = subprocess.Popen(
        [sys.executable, "-m", "moe_lab", "lab", "--no-browser", "--port", str(port), str(folder)],
        env={**os.environ, **own, "JUPYTER_TOKEN": "opensesame", "HOME": "/sys" if closed else str(tmp_path)},
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

    @pytest.mark.skipif(sys.platform != "linux", reason="/sys is a folder that cannot be written to")
    @pytest.mark.parametrize("served", [True], indirect=True)
    def test_a_kernel_runs_where_home_cannot_be_written_to(self, served):
        process, address, _ = served
        deadline = time.monotonic() + 180
        while status(f"{address}/api/kernelspecs?token=opensesame") != 200:
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < deadline, "JupyterLab did not answer within three minutes"
            time.sleep(0.2)
        begun = urllib.request.Request(f"{address}/api/kernels?token=opensesame", data=b"{}", method="POST")
        with urllib.request.urlopen(begun, timeout=60) as answer:
            kernel = json.load(answer)["id"]
        place = f"{address.replace('http', 'ws')}/api/kernels/{kernel}/channels?token=opensesame"
        websocket.create_connection(place, timeout=180).close()  # is opened once the kernel has answered
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[0]
        (kept,) = re.findall(
            r"^/sys/\S+ cannot be written to .*: JupyterLab keeps its files in (\S+) until", said, re.M
        )
        assert not Path(kept).exists() and "Traceback" not in said

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
