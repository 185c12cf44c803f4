"""Video: frames and sound become a file, in process."""

from .encoder import ENCODERS, QUALITIES, EncoderChoice, EncoderError, EncoderOptions, choose_encoder
from .mux import VideoWriteError, VideoWriter, video_file

__all__ = [
    "ENCODERS",
    "QUALITIES",
    "EncoderChoice",
    "EncoderError",
    "EncoderOptions",
    "VideoWriteError",
    "VideoWriter",
    "choose_encoder",
    "video_file",
]
