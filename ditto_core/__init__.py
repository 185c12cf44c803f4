"""Ditto Live: real-time talking heads from a portrait and speech.

The runtime. It knows nothing of ComfyUI; `nodes/` builds on it.
"""

__version__ = "0.1.0"
