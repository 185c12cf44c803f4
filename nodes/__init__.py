"""ComfyUI nodes over `ditto_core`: validate, call, report."""

from comfy_api.latest import ComfyExtension, io


class DittoExtension(ComfyExtension):
    """What the pack adds to ComfyUI."""

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """The pack's nodes."""
        return []
