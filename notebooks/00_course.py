# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The course at a glance
#
# **A map of the notebooks, three ways through them, and the symbols. Nothing is trained here.**
#
# Each notebook asks for a prediction and lets you move the sliders of a mixture of experts that trains while you watch. It
# explains what happened, says where the paper and a careful run differ, and ends in exercises that check themselves.

# %% [markdown] tags=["badges"]
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/moe-lab/moe_lab/blob/v0.1.0/notebooks/00_course.ipynb)
# [![Open on Binder](https://mybinder.org/badge_logo.svg)](https://mybinder.org/v2/gh/moe-lab/moe_lab/v0.1.0?urlpath=lab/tree/notebooks/00_course.ipynb)

# %% tags=["setup"] jupyter={"source_hidden": true}
# On Colab this installs moe_lab v0.1.0 from github.com/moe-lab/moe_lab, and keeps
# the torch, numpy and ipywidgets there. Elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess
    from importlib.metadata import version

    source = "git+https://github.com/moe-lab/moe_lab@v0.1.0"
    print(f"Installing {source}")
    keep = [f"{name}=={version(name)}" for name in ("torch", "numpy", "ipywidgets")]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source, "anywidget", *keep], check=True)

# %% [markdown] tags=["map"]
# | notebook | minutes | after | you will |
# | --- | --- | --- | --- |
# | [00 Start here](00_start_here.ipynb) | 17 | nothing | see it move |
# | [01 Routing by hand](01_routing_by_hand.ipynb) | 35 | 00 | route four patches on paper, three ways |
# | [02 Router alignment](02_router_alignment.ipynb) | 40 | 00, 01 | see why routers turn, measure it, and break it |
# | [03 Phase transitions](03_phase_transitions.ipynb) | 45 | 02 | find out how many samples it takes, and which of the paper's claims hold |
# | [04 Specialisation](04_specialization.ipynb) | 45 | 00, 01 | see experts divide the clusters among them, and measure how well |
# | [05 Pruning](05_pruning.ipynb) | 45 | 00, 01 | find the experts that matter, and throw the others away |
# | [06 Recovery](06_recovery.ipynb) | 45 | 00, 01 | read the experts off a tensor, then the router, and see when EM needs that |
# | [07 Landscapes](07_landscapes.ipynb) | 40 | 00, 01, 06 | replace the squared error by two losses that lead every start home |
# | [08 Real images, real models](08_real_images.ipynb) | 45 | 00, 01, 02 | watch deep networks route pieces of images, and find out by controls what a gain is due to |
# | [09 Prune a model that people use](09_prune_a_model.ipynb) | 30 | 00, 01, 05 | prune a Mixtral of transformers in two ways, save it, and ask whether the choice was a good one |
# | [10 Balance and collapse](10_balance_and_collapse.ipynb) | 45 | 00, 01, 04 | watch a router collapse, cure it in four ways, and find out when balance hurts |
# | [11 Routing choices](11_routing_choices.ipynb) | 40 | 00, 01, 02 | see which patches a routing loses, and what that costs, at equal compute |
# | [12 Build your own mixture](12_build_your_own.ipynb) | 45 | 00, 01, 02 | write a mixture of experts in plain torch, train it, and see the Lab's picture of it |
# | [13 Pruning, further](13_pruning_further.ipynb) | 35 | 05 | prune other checkpoints, with another loss and another routing, and compare theorems with runs |
# | [14 Recovery, further](14_recovery_further.ipynb) | 30 | 06 | hold a paper's figures and formulas against runs, and find why some do not replicate |
# | [15 Specialisation, further](15_specialization_further.ipynb) | 20 | 04 | trace a published table to what trained it, sharpen a lemma, and check a theorem on a run |

# %% [markdown]
# ## Three ways through

# %% [markdown] tags=["ways"]
# | you have | take, in this order | minutes at the keyboard |
# | --- | --- | --- |
# | one lecture | [00](00_start_here.ipynb), [01](01_routing_by_hand.ipynb), [02](02_router_alignment.ipynb) | 92 |
# | one day | [00](00_start_here.ipynb), [01](01_routing_by_hand.ipynb), [02](02_router_alignment.ipynb), [03](03_phase_transitions.ipynb), [04](04_specialization.ipynb), [05](05_pruning.ipynb) | 227 |
# | one term | [00](00_start_here.ipynb), [01](01_routing_by_hand.ipynb), [02](02_router_alignment.ipynb), [03](03_phase_transitions.ipynb), [04](04_specialization.ipynb), [05](05_pruning.ipynb), [06](06_recovery.ipynb), [07](07_landscapes.ipynb), [08](08_real_images.ipynb), [09](09_prune_a_model.ipynb), [10](10_balance_and_collapse.ipynb), [11](11_routing_choices.ipynb), [12](12_build_your_own.ipynb), [13](13_pruning_further.ipynb), [14](14_recovery_further.ipynb), [15](15_specialization_further.ipynb) | 602 |

# %% [markdown]
# - **One lecture.** Project a Lab (`RouterAlignmentLab(projector=True)`), let the audience predict before you move a slider,
#   and leave the exercises for home.
# - **One day.** The first paper in the morning (00 to 03), two more in the afternoon (04 and 05). Work in pairs: one
#   predicts, the other moves the slider.
# - **One term.** A notebook a week, its paper beside it. Use the weeks that are left for claims: choose some from
#   `moe-lab reproduce --list`, state what you expect, measure, and explain any difference.
#
# Instructors will find talking points, misconceptions, questions and timing in the
# [instructor's guide](instructors_guide.md).

# %% [markdown]
# ## How far you are
#
# Every Lab has tasks in its menu <kbd>goal</kbd>. Those that you have solved on this machine are kept:

# %% tags=["varies"]
from moe_lab_widgets import goals

goals()

# %%
from IPython.display import HTML

from moe_lab.course import glossary
from moe_lab.course.picture import course_map

course_map()

# %% [markdown]
# *What to see.* An arrow from A to B means: do A before B. A band is a theme. After 00 and 01 you can take the themes in any
# order.
#
# ## Symbols
#
# The papers use one letter for several things, so a letter has a row for each of its meanings. *First in* is the notebook
# that explains it first. Below the table, *Names in code* unfolds: "declared in" names the parameter of the library, or
# the function that measures what has no range of values.

# %%
HTML(glossary.as_html())
