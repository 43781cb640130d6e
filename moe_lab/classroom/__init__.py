"""A course for a class: copies for students and for the instructor, verdicts as JSON, handouts, slides and stills.

The folders are those of nbgrader: `source` (with solutions), `release` (without), `submitted/STUDENT/LESSON`. Nothing
here needs nbgrader or a network; with nbgrader, `source` is what `nbgrader generate_assignment` reads.
"""
