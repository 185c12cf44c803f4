/** Plays on a node what is already made of its video. */

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";

const WIDGET = "video-preview"; // ComfyUI's own: the finished video takes the place of the live one in it
const LEAST_HEIGHT = 64;
const QUOTA_PAUSE_MS = 1000;

const players = new Map();

/** Whether a node plays a video that is still being made. */
export function isLive(node) {
  return players.has(node);
}

/** The nodes of which this is so. */
export function liveNodes() {
  return [...players.keys()];
}

/** Begins to play a node's video; `detail` is what the server says of it. False where this browser can't. */
export function playLive(node, { address, type }) {
  stopLive(node);
  if (!window.MediaSource?.isTypeSupported(type)) return false;
  const video = document.createElement("video");
  Object.assign(video, { controls: true, playsInline: true });
  video.addEventListener("error", () => stopLive(node), { once: true });
  video.addEventListener("loadedmetadata", () => begin(video), { once: true });
  const stopping = new AbortController();
  players.set(node, { video, stopping });
  show(node, video);
  feed(video, address, type, stopping.signal).catch((error) => {
    if (!stopping.signal.aborted) console.warn("Ditto: the video can no longer be shown while it is made.", error);
  });
  return true;
}

/** Ends a node's live video. */
export function stopLive(node) {
  players.get(node)?.stopping.abort();
  players.delete(node);
}

/** Has the finished video take the place of the live one, and go on from the same moment. */
export function finishLive(node) {
  const live = players.get(node);
  if (!live) return;
  players.delete(node);
  const { video, stopping } = live;
  new MutationObserver((_, observer) => {
    const finished = node.videoContainer?.querySelector("video");
    if (!finished || finished === video) return;
    observer.disconnect();
    finished.muted = video.muted;
    finished.currentTime = video.currentTime;
    if (!video.paused) finished.play().catch(() => {});
    stopping.abort();
  }).observe(node.videoContainer, { childList: true });
}

/** Plays; without sound where the page may not make any before it was clicked. */
function begin(video) {
  app.canvas?.setDirty(true, true);
  video.play().catch((error) => {
    if (error.name !== "NotAllowedError") return;
    video.muted = true;
    video.play().catch(() => {});
  });
}

/** Appends to a video what the server sends, as it comes. */
async function feed(video, address, type, signal) {
  const source = new MediaSource();
  video.src = URL.createObjectURL(source);
  await happens(source, "sourceopen");
  URL.revokeObjectURL(video.src);
  const buffer = source.addSourceBuffer(type);
  const answer = await api.fetchApi(address, { signal, cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const reader = answer.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    await append(buffer, part.value);
  }
  if (source.readyState === "open") source.endOfStream();
}

/** Appends bytes; a browser that holds enough takes them when some of it has been seen. */
async function append(buffer, bytes) {
  for (;;) {
    try {
      buffer.appendBuffer(bytes);
      return await happens(buffer, "updateend");
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error;
      await new Promise((done) => setTimeout(done, QUOTA_PAUSE_MS));
    }
  }
}

function happens(target, kind) {
  return new Promise((done) => target.addEventListener(kind, done, { once: true }));
}

/** Puts a video where ComfyUI shows a finished one. */
function show(node, video) {
  if (!node.videoContainer) {
    node.videoContainer = document.createElement("div");
    node.videoContainer.classList.add("comfy-img-preview");
    const widget = node.addDOMWidget(WIDGET, "video", node.videoContainer, { canvasOnly: true, hideOnZoom: false });
    widget.serialize = false;
    widget.computeLayoutSize = () => {
      const shown = node.videoContainer?.querySelector("video");
      const height = shown?.videoWidth ? (node.size[0] * shown.videoHeight) / shown.videoWidth : LEAST_HEIGHT;
      return { minHeight: Math.max(height, LEAST_HEIGHT), minWidth: node.size[0] };
    };
  }
  node.videoContainer.replaceChildren(video);
}
