"""News presenters drawn by torch operations: batched, on any device, the same picture every time.

`render` draws, `presenter_cast.cast` and `random_identities` say whom, `Motion` says what they do, and
`presenter_keypoints` says where the features are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .presenter_body import backdrop, neck, torso
from .presenter_draw import coverage, face_surface, over, set_up
from .presenter_face import eyes, glasses, nose, skin
from .presenter_geometry import FACE, View, window_around
from .presenter_hair import back_hair, beard, ears, hair_shadow, head_hair, locks, under_hair
from .presenter_mouth import mouth
from .presenter_parameters import Identity, Motion

_MOUTH_POINTS, _EYE_POINTS = (6, 12, 14, 17), (1, 2, 11, 15)


@torch.no_grad()
def render(identity: Identity, motion: Motion, view: View = FACE) -> Tensor:
    """Draws presenters.

    Args:
        identity: n presenters.
        motion: what each does; on the same device.
        view: which part of the scene the pictures show.

    Returns:
        (n, 3, height, width) float32 in 0..1, RGB.
    """
    looks, moves, head = set_up(identity, motion, view)
    axes = view.axes(identity.device)
    long = bool(identity.hair_length.any())
    image = backdrop(looks, axes[0], axes[1])
    if long:
        image = back_hair(image, looks, head)
    image = torso(image, looks, *axes)
    image = neck(image, looks, moves, head, axes)
    image = under_hair(image, looks, head)
    image = ears(image, looks, head)

    surface = face_surface(head, looks)
    face = skin(looks, moves, surface)
    if identity.beard.any():
        face = beard(face, looks, surface)
    face = nose(face, looks, head)
    for paint, points, margin in ((mouth, _MOUTH_POINTS, 0.14), (eyes, _EYE_POINTS, 0.24)):
        part = window_around(identity, motion, view, points, margin)
        face[..., part[0], part[1]] = paint(face[..., part[0], part[1]], looks, moves, surface.part(*part), head.pixel)
    face = hair_shadow(face, looks, surface)
    if identity.glasses.any():
        face = glasses(face, looks, surface, head.pixel)
    image = over(image, face.clamp(0, 1), coverage(surface.outside, head.pixel))

    image = head_hair(image, looks, head)
    return (locks(image, looks, head) if long else image).clamp(0, 1)
