"""Video: frames and sound become a file or a stream, in process."""

from .alpha import AlphaWriter, alpha_file
from .containers import FRAGMENTED_MP4, GROWING_MP4, TS
from .copies import SinkError, StreamCopy
from .encoder import ENCODERS, QUALITIES, EncoderChoice, EncoderError, EncoderOptions, choose_encoder
from .mux import VideoWriter, video_file, video_stream
from .muxer import VideoWriteError

__all__ = [
    "ENCODERS",
    "FRAGMENTED_MP4",
    "GROWING_MP4",
    "QUALITIES",
    "TS",
    "AlphaWriter",
    "EncoderChoice",
    "EncoderError",
    "EncoderOptions",
    "SinkError",
    "StreamCopy",
    "VideoWriteError",
    "VideoWriter",
    "alpha_file",
    "choose_encoder",
    "video_file",
    "video_stream",
]
