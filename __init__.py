"""Ditto Live as a ComfyUI node pack."""

WEB_DIRECTORY = "./web"


async def comfy_entrypoint():  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Called by ComfyUI: the pack's nodes."""
    from .nodes.extension import DittoExtension

    return DittoExtension()
