"""The course as nbgrader reads it: lessons with points, solutions and hidden tests, which call `moe_lab.exercises`."""

from moe_lab.course.classroom.verdicts import show_verdict

__all__ = ["show_verdict"]
