"""ComfyUI nodes over `ditto_core`: validate, call, report. `extension` is where ComfyUI comes in."""
