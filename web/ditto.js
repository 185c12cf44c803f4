import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { finishLive, isLive, liveNodes, playLive, stopLive } from "./live_player.js";

const WRITER = "NVENCVideoWriter";

/** The node of an id of the running prompt; "12:5" is node 5 in the subgraph of node 12. */
function nodeOf(id) {
  const path = String(id).split(":");
  const last = path.pop();
  const graph = path.reduce((graph, part) => graph?.getNodeById(part)?.subgraph, app.rootGraph ?? app.graph);
  return graph?.getNodeById(last);
}

const failed = new Set();

/** Marks nodes as failed, or takes the marks back. */
function mark(nodes, value) {
  for (const node of nodes) node.has_errors = value;
  app.canvas?.setDirty(true, true);
}

/** Takes a widget of ComfyUI's own from a node. */
function dropWidget(node, name) {
  const widget = node.widgets?.find((widget) => widget.name === name);
  if (widget) node.removeWidget(widget);
}

/** Lets a writer show frames while it runs. */
function showPictures(node) {
  node.previewMediaType = "image";
  node.videoContainer = undefined;
  dropWidget(node, "video-preview");
}

/** Lets a writer show a video, and no longer the last frame, which ComfyUI would try to play. */
function showVideo(node) {
  node.previewMediaType = "video";
  delete app.nodePreviewImages[node.id];
  dropPicture(node);
}

/** Takes the last frame from a node. */
function dropPicture(node) {
  node.imgs = undefined;
  dropWidget(node, "$$canvas-image-preview");
}

app.registerExtension({
  name: "Ditto.Live",

  setup() {
    // ComfyUI marks the node that ran, which only pulled the frames; this one could not make them.
    api.addEventListener("ditto.frames_failed", ({ detail }) => {
      const node = nodeOf(detail.node);
      if (!node) return;
      failed.add(node);
      mark([node], true);
    });
    api.addEventListener("execution_start", () => {
      mark(failed, false);
      failed.clear();
    });

    // A node shows either pictures or a video: the newest frame, what is made so far, the finished file.
    api.addEventListener("b_preview_with_metadata", ({ detail }) => {
      const node = nodeOf(detail.displayNodeId);
      if (node?.comfyClass === WRITER) (isLive(node) ? showVideo : showPictures)(node);
    });
    api.addEventListener("ditto.live_video", ({ detail }) => {
      const node = nodeOf(detail.node);
      if (node && playLive(node, detail)) showVideo(node);
    });
    api.addEventListener("executed", ({ detail }) => {
      const node = nodeOf(detail.display_node ?? detail.node);
      if (node?.comfyClass !== WRITER) return;
      finishLive(node);
      showVideo(node);
    });
    for (const end of ["execution_error", "execution_interrupted"])
      api.addEventListener(end, () => {
        for (const node of liveNodes()) {
          stopLive(node);
          showPictures(node);
        }
      });
  },

  nodeCreated(node) {
    if (node.comfyClass !== WRITER) return;
    const draw = node.onDrawBackground;
    node.onDrawBackground = function (...given) {
      // The last frame may arrive when the finished file is there already.
      if (this.previewMediaType === "video" && this.imgs) dropPicture(this);
      return draw?.apply(this, given);
    };
  },
});
