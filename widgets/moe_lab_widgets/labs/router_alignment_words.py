"""What the router-alignment Lab says of a run, as templates: its caption is made of them here and in the playground."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    # What decides the class, in the caption and in labels.
    "DIGIT": "the {digit}",
    "DIGIT_LABEL": "digit {digit}",
    "PATTERN_LABEL": "pattern {name}",
    # The caption.
    "START": "The routers are random. {received}.",
    "CAPTION": "{directions}. {found}. {right}",
    "RECEIVED": "Some expert receives {first} in {one} of its samples, {second} in {other}",
    "NEVER": "No expert receives {name}",
    "RARELY": "An expert receives {name} in only {share}",
    "AND": "{found}; {both}",
    "BOTH": "both {what} are found in {count} of {trials} trials",
    "DIGITS": "digits",
    "PATTERNS": "patterns",
    "RIGHT": "The mixture is right in {mixture}, the CNN in {cnn}.",
    "ENOUGH": "One is enough for a high accuracy: {mixture}, CNN {cnn}.",
    # Which routers look for what.
    "UNMOVED": "the routers have not moved at all",
    "ROUTER": "router {last}",
    "ROUTERS": "routers {most} and {last}",
    "LOOKS": "{routers} looks for {name}",
    "LOOK": "{routers} look for {name}",
    "ALSO": "{routers} for {name}",
    "NONE": "{part}, none for {name}",
    "NOBODY": "no router looks for {first} or {second}",
    # What the panels say of themselves.
    "AXIS": "cos(w, {name})   → looks for {pattern}",
    "TRIAL_ONE": "one trial",
    "TRIALS_TWO": "trial {shown}; grey dots: {others} other trial",
    "TRIALS": "trial {shown}; grey dots: {others} other trials",
    "TRIALS_SOME": "trial {shown}; grey dots: {drawn} of {others} other trials",
    "FRAMED_ONE": "framed: the l = {kept} patch that each expert scores highest",
    "FRAMED": "framed: the l = {kept} patches that each expert scores highest",
    "ACCURACY_ONE": "test accuracy of the one trial",
    "ACCURACY": "test accuracy; thick: median of {trials} trials",
    "ACCURACY_MANY": "accuracy: median, half, 90 % of {trials} trials",
    "COVERAGE": "coverage, trial {shown}: how often each expert\nreceives the deciding patch",
    "DIVERGED": "The {model}'s loss became infinite in {trials}: no further steps there.",
}
