"""Quality: measures of pictures, mouths, steps and sound, and the comparison of two videos."""

from .charts import comparison_picture
from .clips import ClipCourses, ClipMeter, FaceTrack, PairMeter
from .compare import Comparison, compare_videos
from .courses import JointSteps, LipSync, Separation, joint_frames, joint_steps, lag, lip_sync, separation, spikes
from .drawing import write_png
from .findings import summary
from .mouth import aperture, aperture_difference, closed, opening
from .pictures import PictureDifference, difference, psnr, ssim

__all__ = [
    "ClipCourses",
    "ClipMeter",
    "Comparison",
    "FaceTrack",
    "JointSteps",
    "LipSync",
    "PairMeter",
    "PictureDifference",
    "Separation",
    "aperture",
    "aperture_difference",
    "closed",
    "compare_videos",
    "comparison_picture",
    "difference",
    "joint_frames",
    "joint_steps",
    "lag",
    "lip_sync",
    "opening",
    "psnr",
    "separation",
    "spikes",
    "ssim",
    "summary",
    "write_png",
]
