"""Speech: from any sound to features at 25 Hz."""

from .decode import Sound, analysis_signal, read_sound
from .features import FeatureStream, speech_features
from .hubert import OnnxHubert, SpeechEncoder, TransformersHubert, recipe_hubert
from .loading import speech_encoder_for
from .resample import Resampler
from .windows import SpeechWindows, frame_count

__all__ = [
    "FeatureStream",
    "OnnxHubert",
    "Resampler",
    "Sound",
    "SpeechEncoder",
    "SpeechWindows",
    "TransformersHubert",
    "analysis_signal",
    "frame_count",
    "read_sound",
    "recipe_hubert",
    "speech_encoder_for",
    "speech_features",
]
