"""The sizes of the networks."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models import TINY

from ditto_core.errors import InvalidValueError
from ditto_core.networks import MINIATURE, OFFICIAL, Preset

FIELDS = [field.name for field in dataclasses.fields(Preset)]


@pytest.mark.parametrize("preset", [OFFICIAL, MINIATURE, TINY], ids=lambda p: p.name)
def test_survives_json(preset):
    assert Preset.from_json(json.loads(json.dumps(preset.to_json()))) == preset


def test_sizes_that_follow():
    assert (OFFICIAL.volume_size, OFFICIAL.speech_features) == (64, 1024)
    assert (MINIATURE.volume_size, MINIATURE.speech_features) == (128, 64)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"pixel_shuffle": 3}, "768 pixels"),
        ({"motion_grid": (3, 64)}, "does not divide"),
        ({"motion_grid": (16, 16)}, "can't be halved"),
        ({"mask_kernel": 6}, "must be odd"),
        ({"heads": 5}, "heads"),
        ({"volume_channels": 0}, "volume_channels"),
        ({"decoder_width": 1 << 40}, "decoder_width"),
        ({"middle_blocks": 65}, "middle_blocks"),
        ({"heatmap_variance": float("nan")}, "heatmap_variance"),
        ({"hourglass_widths": ()}, "hourglass_widths"),
        ({"appearance_widths": (8,) * 65}, "appearance_widths"),
        ({"latent_size": True}, "latent_size"),
    ],
)
def test_names_the_size_that_does_not_fit(change, named):
    with pytest.raises(InvalidValueError, match=named):
        dataclasses.replace(OFFICIAL, **change)


@given(
    st.sampled_from(FIELDS),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.lists(st.integers()),
        st.dictionaries(st.text(), st.integers()),
    ),
)
def test_any_value_of_a_file_is_taken_or_refused_by_name(field, value):
    try:
        preset = Preset.from_json(OFFICIAL.to_json() | {field: value})
    except InvalidValueError as error:
        assert field in str(error) or "preset" in str(error)
    else:
        assert getattr(preset, field) in (value, tuple(value) if isinstance(value, list) else value)
