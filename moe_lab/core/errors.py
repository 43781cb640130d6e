"""Errors that the user can do something about, as against bugs.

Each says in one sentence which rule was broken and by what. The command line prints that sentence alone; any other
error is a bug, and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import traceback

DEBUG = "MOE_LAB_DEBUG"
"""The environment variable that makes user errors keep their traceback too."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE})
"""Of errors that name no file, those of a full device, a spent quota, and a pipe whose reader has gone."""


class UserError(Exception):
    """The user gave something wrong, or the machine lacks something."""


class InputError(UserError, ValueError):
    """A value, a name or the content of a file breaks a rule."""


class MissingFileError(UserError, FileNotFoundError):
    """A file or folder that was named is not there."""


class OperationError(UserError, RuntimeError):
    """The request cannot be carried out here: a package, a device, memory or a permission is missing, for example."""


def traced(error: BaseException) -> bool:
    """Whether to show the traceback of an error: it is a bug, or MOE_LAB_DEBUG asks for every one.

    An OSError that names a file is about the user's file, and one of `NO_ROOM` about where something was written.
    """
    about_a_file = isinstance(error, OSError) and (error.filename is not None or error.errno in NO_ROOM)
    users = isinstance(error, UserError) or about_a_file
    return not users or os.environ.get(DEBUG, "") not in ("", "0")


def trace_of(error: BaseException) -> str:
    """Returns the traceback of an error as text, for those that pass from process to process; "" for a user's."""
    return "".join(traceback.format_exception(error)) if traced(error) else ""


def failed(sentence: str, trace: str) -> RuntimeError:
    """Returns the error of work of which a part failed elsewhere; `trace` is what `trace_of` gave there."""
    error = RuntimeError(sentence) if trace else OperationError(sentence)
    if trace:
        error.add_note(trace)
    return error
