"""Tables of numbers read line by line: right ones, damaged ones, and a real download from a server in this process."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moe_lab.datasets import diabetes, uci

REAL = Path(os.environ.get("MOE_LAB_AIRFOIL", Path(__file__).parents[3] / "shared" / "data" / "airfoil.csv.gz"))
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="needs the airfoil data: set MOE_LAB_AIRFOIL to its file")
ROWS = np.array([[540.0, 0, 0.5], [1e-3, -2, 3], [7, 8, 9]])


def written(rows: np.ndarray, between: str, end: str = "\n") -> str:
    return "".join(between.join(f"{value!r}" for value in row) + end for row in rows.tolist())


# --- reading ----------------------------------------------------------------------------------------------------------


@needs_real
def test_the_real_airfoil_data() -> None:
    data = uci.load("airfoil", REAL)
    assert data.x.shape == (1503, 5) and data.y.shape == (1503,) and len(data.features) == 5
    np.testing.assert_allclose(data.y.std(), 6.8966, atol=1e-3)  # dB, as in the repository's description
    np.testing.assert_allclose(data.x[0, 0], -1286.4)  # 800 Hz, centred


def test_diabetes_is_embedded_and_in_its_own_units() -> None:
    data = diabetes.load()
    assert data.x.shape == (442, 10) and data.features[:4] == ("age", "sex", "bmi", "bp")
    assert data.y.min() == 25 and data.y.max() == 346
    assert data.x[:, 0].min() >= 19 and data.x[:, 0].max() == 79  # years


@pytest.mark.parametrize("between", [",", ";", "\t", " ", ", ", "   "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_numbers_may_be_divided_in_any_usual_way(tmp_path: Path, between: str, end: str) -> None:
    (tmp_path / "table").write_bytes(written(ROWS, between, end).encode())
    np.testing.assert_array_equal(uci.read_table(tmp_path / "table"), ROWS)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_of_names_blank_lines_and_packing_are_no_matter(tmp_path: Path, packed: bool) -> None:
    content = ("\ufeffcement,age,strength\n\n" + written(ROWS, ",") + "\n\n").encode()
    (tmp_path / "any-name").write_bytes(gzip.compress(content) if packed else content)
    np.testing.assert_array_equal(uci.read_table(str(tmp_path / "any-name")), ROWS)


# --- files that are not right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "at least one row of numbers"),
        (b"a,b,c\n", "at least one row of numbers"),
        (b"1,2,3\n4,5\n", "as many numbers as the first, 3: got row=2, numbers=2"),
        (b"x,y\n1,2\n3,oops\n", "finite numbers: got row=3, value='oops'"),
        (b"1,2\n3,nan\n", "finite numbers: got row=2, value='nan'"),
        (b"1,2\n3,inf\n", "finite numbers"),
        (b"1,2\n3,\n", "finite numbers: got row=2, value=''"),
        (b"a,2\n3,4\n", "finite numbers: got row=1, value='a'"),  # half a line of names is none
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel file must be saved as CSV first.: got d0 cf 11 e0"),
        (gzip.compress(b"1,2\n" * 99)[:-9], "is not a whole gzip file"),
        (gzip.compress(b"1,2\n" * (2**22 + 1), 1), "at most 16777216 bytes"),
        (b"\x80\x04cos\nsystem\n.", "a table must be text"),  # a pickle
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as raised:
        uci.read_table(path)
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_portfolios_are_brought_and_their_weights_are_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, row = tmp_path / "stock_portfolio.csv", "0.333,0.333,0.333,0,0,0,"
    path.write_text(f"a,b,c,d,e,f,excess return\n{row}0.02\n0,0,0,0,0,1,-0.01\n")
    data = uci.load("portfolio", path)
    assert data.x.shape == (2, 6) and data.y.tolist() == [0.02, -0.01] and data.target == "excess return"
    for weights in ("0.5,0.5,0.5,0,0,0", "1.5,-0.5,0,0,0,0"):
        path.write_text(f"{row}0.02\n{weights},0.1\n")
        with pytest.raises(ValueError, match=r"six weights in each row, from 0 to 1, .*: got row=2"):
            uci.load("portfolio", path)
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="must be brought as a file: pass path=: got name='portfolio'"):
        uci.load("portfolio", download=True)
    with pytest.raises(FileNotFoundError, match=r"pass path= \(a file\)$"):
        uci.load("portfolio")


def test_wrong_names_paths_and_columns_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table.csv").write_text("1,2,3\n")
    with pytest.raises(ValueError, match=r"concrete has 9 columns, the last its target: got columns=3"):
        uci.load("concrete", tmp_path / "table.csv")
    with pytest.raises(ValueError, match="name must be one of airfoil, concrete, portfolio: got name='iris'"):
        uci.load("iris")
    with pytest.raises(ValueError, match="leave out path"):
        uci.load("airfoil", tmp_path / "table.csv", download=True)
    with pytest.raises(FileNotFoundError, match="there is no file /nowhere/x"):
        uci.load("airfoil", "/nowhere/x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"not in the cache \(.*uci.*\): pass path= .* or download=True"):
        uci.load("airfoil")


# --- downloading ------------------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what it was asked for."""

    def __init__(self, *arguments: object, asked: list[str], **named: object) -> None:
        self.asked = asked
        super().__init__(*arguments, **named)  # type: ignore[arg-type]

    def log_message(self, *arguments: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A real HTTP server on a free port: the right file, and one with a byte changed."""
    folder, asked = tmp_path / "served", list[str]()
    folder.mkdir()
    content = written(ROWS, "\t", "\r\n").encode()
    (folder / "right.dat").write_bytes(content)
    (folder / "wrong.dat").write_bytes(content.replace(b"540", b"541"))
    handler = functools.partial(Quiet, directory=str(folder), asked=asked)
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/", asked
    made.shutdown()
    made.server_close()


def source(*urls: str) -> uci.Source:
    known = hashlib.sha256(written(ROWS, "\t", "\r\n").encode()).hexdigest()
    return dataclasses.replace(uci.SOURCES["airfoil"], urls=urls, sha256=known)


def test_a_download_is_checked_and_not_repeated(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    url, asked = server
    made = source(f"{url}missing.dat", f"{url}wrong.dat", f"{url}right.dat")
    path = uci.fetch("airfoil", tmp_path / "new" / "uci", source=made)
    np.testing.assert_array_equal(uci.read_table(path), ROWS)
    count = len(asked)
    assert uci.fetch("airfoil", tmp_path / "new" / "uci", source=made) == path
    assert len(asked) == count


def test_only_wrong_copies_leave_nothing_behind(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    url, _ = server
    with pytest.raises(RuntimeError, match=r"could not be downloaded .*not the file expected.*HTTPError.*path="):
        uci.fetch("airfoil", tmp_path / "uci", source=source(f"{url}wrong.dat", f"{url}missing.dat"))
    assert list((tmp_path / "uci").iterdir()) == []


def test_no_network_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ConnectionError.*without a network, pass a file"):
        uci.fetch("airfoil", tmp_path / "uci", source=source("http://127.0.0.1:1/x"))


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="the folder must be writable"):
        uci.fetch("airfoil", tmp_path / "file" / "uci", source=source("http://127.0.0.1:1/x"))
