"""What the phase-transition Lab says of a map, as templates: its caption is made of them here and in the playground."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    # The caption while the map fills.
    "NOTHING": "Nothing has run yet. The map has {cells} cells of {trials} trainings each.",
    "FIRST_LOOK": "A first look: {first} trainings in each cell{where}.",
    "WHERE_SAMPLES": ", now with N = {samples}",
    "CELLS_DONE": "{done} of {cells} cells are done{where}.",
    "WHERE_CELL": ", now l = {kept} with N = {samples}",
    "SO_FAR": "{begun} So far {found}.{below}",
    "FOUND": "{samples} samples are enough at {kept}",
    "FOUND_NONE": "no l succeeds in 90 % of its trainings",
    # What the full map shows.
    "NEEDS": "{samples} samples are enough at {kept}{star}{largest}.",
    "NEEDS_NONE": "No l succeeds in 90 % of its trainings with up to {most} samples{star}.",
    "STAR": " (l* = {l_star})",
    "LARGEST": "; l = {kept} needs {samples}",
    "MORE_THAN": "more than {most}",
    "AT": "l = {kept}",
    "BOTH": " Coverage is {first} and {last}.",
    "LEVEL": "{share} % at l = {kept}",
    "BELOW_RISE": " Below l* = {l_star} coverage is {first}, but {most}{lucky}.",
    "BELOW_MOST": " Below l* = {l_star} coverage is at most {share} %{lucky}.",
    "LUCKY": ", but one right expert is enough for {found}",
    "LUCKY_ONE": "l = {kept} (N = {samples})",
    # Beside the picture.
    "PROGRESS": "{done} of {total} trainings",
    "TROUBLE": "In {lost} training the loss became infinite; they count as failures.",
    "TROUBLES": "In {lost} trainings the loss became infinite; they count as failures.",
    # What the panels say of themselves.
    "JOINT_EXPERTS": "k = {experts}",
    "OWN_EXPERTS": "one expert per class",
    "TRAINED": "{training} training ({experts}): % of {trials} trainings that reach 95 % test accuracy\n"
    "{small}pale: the map before",
    "SMALL": "small cell: {first} have run; ",
    "ACROSS": "N · training samples",
    "UP": "l · patches kept per expert",
    "CELL_NAME": "l = {kept}, N = {samples}",
    "BORDER": "from here on at least 90 % succeed",
    "L_STAR": "l* = {l_star}",
    "NEEDED_MORE": "▷ more than {most}",
}
