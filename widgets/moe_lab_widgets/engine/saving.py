"""What is kept of the run of a Lab: pictures, data, pages, recordings and links."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab_widgets.drawing.words import unended
from moe_lab_widgets.engine.controls import Controls
from moe_lab_widgets.engine.declaration import Declared
from moe_lab_widgets.engine.files import dataset_bytes, with_suffix, write_whole
from moe_lab_widgets.engine.linking import Link, link_of
from moe_lab_widgets.engine.presenter import Presenter
from moe_lab_widgets.engine.recording import page_of, recording_of
from moe_lab_widgets.frames.recording import MOST_FRAMES, Recording
from moe_lab_widgets.frames.screen import Screen


class Saving(Declared):
    """Writes and returns what is kept of a run. One that has not ended says so, on its picture too."""

    screen: Screen
    controls: Controls
    headless: bool
    _presenter: Presenter

    @property
    @abstractmethod
    def record(self) -> Any:
        """The record on show."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the present run came to its end."""

    @checked
    def save_picture(self, path: str | Path) -> Path:
        """Writes the picture with its caption as PNG, atomically; one of a run that has not ended says so."""
        return write_whole(with_suffix(path, ".png"), self.png())

    @checked
    def save_data(self, path: str | Path) -> Path:
        """Writes everything recorded as netCDF (.nc) or JSON (.json), atomically.

        Where the run has not ended, the attribute `unfinished` says so.
        """
        path = with_suffix(path, ".nc", ".json")
        records = self.records
        if not records:
            raise InputError("there is nothing to save yet: the run has recorded nothing")
        data = self.data(records)
        if not self.finished:
            data.attrs["unfinished"] = unended(self.progress(records[-1]))
        return write_whole(path, dataset_bytes(data, path.suffix))

    @checked
    def export(self, path: str | Path, live: bool = False, ask: bool = False) -> Path:
        """Writes the run on show as one HTML page that plays without a kernel or a network, atomically.

        The last frame of a run that has not ended says so.

        Args:
          live: whether the page trains in the browser, beginning with these values, and has sliders. Recording the Lab
            can take a minute, the first time. Such a page asks the question of the Lab anyway.
          ask: whether the page opens at the start of the run, with the question of the Lab, which may be answered
            on the picture, too.

        Raises:
          ValueError: the page should be live, and the Lab is not recorded, or not for these values; or it should ask,
            and the Lab has no question, or its run has not ended.
          FileNotFoundError, RuntimeError: the file cannot be written.
        """
        path = with_suffix(path, ".html", ".htm")
        if live:
            from moe_lab_widgets.live.page import page as live_page  # here: it is about all Labs

            return write_whole(path, live_page(type(self).__name__, values=self.values).encode())
        with self.screen.for_a_file(self.record) as picture:
            run = self.records, self._presenter.values, self.screen.shown
            page = page_of(self, picture, *run, ended=self.finished, ask=ask)
        return write_whole(path, page)

    @checked
    def link(self, site: str | None = None) -> Link:
        """Returns code that makes a Lab with these values, and an address that opens this run, or its notebook.

        Args:
          site: where the course's pages are; the repository's own pages when None.
        """
        values = {name: value for name, value in self._board.values.items() if name != "device"}
        return link_of(type(self), values, self._board.needed(values), site, self.own)

    @checked
    def recording(self, most: int = MOST_FRAMES) -> Recording:
        """Returns the run on show as a recording of at most `most` frames."""
        require(most >= 2, "most must be at least 2", most=most)
        with self.screen.for_a_file(self.record) as picture:
            values, shown = self._presenter.values, self.screen.shown
            return recording_of(self, picture, self.records, values, shown, most, ended=self.finished)

    def png(self) -> bytes:
        """Returns the picture on show as PNG with its caption, which says where the run has not ended."""
        return self._presenter.png()

    def _save(self, what: str, save: Callable[[str], Path]) -> None:
        """Writes a file. An error does not end the run."""
        try:
            path = save(self.controls.file.value)
        except Exception as error:
            self._presenter.not_saved(error)
            if self.headless:
                raise
        else:
            self._presenter.saved(what, path)
            self.screen.download(path.name, path.read_bytes())
