"""Marks of tests that need what a machine may lack."""

from __future__ import annotations

import pytest
import torch

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device on this machine")
