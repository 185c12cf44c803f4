"""The speech encoders: real transformers models and real onnxruntime sessions, at miniature size."""

import json
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file, save_file
from transformers import HubertConfig, HubertForCTC, HubertModel

from ditto_core.errors import CheckpointError, InvalidValueError, MissingPackageError
from ditto_core.speech import OnnxHubert, TransformersHubert, recipe_hubert, speech_features

SIZES = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    conv_dim=[16] * 7,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
)
WINDOWS = torch.from_numpy(np.random.default_rng(0).uniform(-0.5, 0.5, (3, 6480)).astype(np.float32))


def save_model(folder, kind=HubertModel, **sizes):
    torch.manual_seed(0)
    model = kind(HubertConfig(**SIZES, **sizes)).eval()
    model.save_pretrained(folder)
    return model


def change_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    "sizes",
    [{}, dict(feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True)],
    ids=["as base", "as large"],
)
@pytest.mark.parametrize("kind", [HubertModel, HubertForCTC])
def test_a_saved_folder_gives_the_models_own_numbers(tmp_path, kind, sizes):
    model = save_model(tmp_path, kind, **sizes)
    with torch.inference_mode():
        expected = getattr(model, "hubert", model)(WINDOWS).last_hidden_state
    hubert = TransformersHubert.from_folder(tmp_path)
    assert hubert.features == 32
    assert torch.equal(hubert.encode(WINDOWS), expected)
    assert hubert.encode(WINDOWS).shape == (3, 20, 32)


def test_weight_norms_older_names_are_read(tmp_path):
    save_model(tmp_path)
    before = TransformersHubert.from_folder(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    for new, old in names.items():
        key = next((key for key in weights if key.endswith(new)), None)
        if key:
            weights[key.replace(new, old)] = weights.pop(key)
    del weights["masked_spec_embed"]
    save_file(weights, tmp_path / "model.safetensors")
    after = TransformersHubert.from_folder(tmp_path)
    assert torch.equal(before.encode(WINDOWS), after.encode(WINDOWS))
    assert before.fingerprint != after.fingerprint


def test_half_precision_is_close_and_reported(tmp_path):
    """bfloat16 keeps 8 bits: within 5 % of the scale after two layers."""
    save_model(tmp_path)
    full = TransformersHubert.from_folder(tmp_path)
    half = TransformersHubert.from_folder(tmp_path, precision=torch.bfloat16)
    difference = (full.encode(WINDOWS) - half.encode(WINDOWS)).abs().max() / full.encode(WINDOWS).abs().max()
    assert 0 < difference < 0.05
    assert half.executed_by == f"torch {torch.__version__} cpu bfloat16"


def break_folder(folder, how):
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    match how:
        case "no weights":
            weights.unlink()
        case "no config":
            (folder / "config.json").unlink()
        case "config is no JSON":
            (folder / "config.json").write_text("{")
        case "config of another model":
            change_config(folder, model_type="wav2vec2")
        case "huge width":
            change_config(folder, hidden_size=1 << 40)
        case "width is text":
            change_config(folder, hidden_size="32")
        case "too many layers":
            change_config(folder, num_hidden_layers=100_000)
        case "heads that do not divide":
            change_config(folder, num_attention_heads=3)
        case "convolutions of two lengths":
            change_config(folder, conv_dim=[16] * 6)
        case "unknown activation":
            change_config(folder, hidden_act="__import__('os')")
        case "another frame rate":
            change_config(folder, conv_stride=[5, 2, 2, 2, 2, 2, 1])
        case "weights cut off":
            weights.write_bytes(weights.read_bytes()[:-1000])
        case "tensor missing":
            del tensors["encoder.layer_norm.weight"]
            save_file(tensors, weights)
        case "tensor unknown":
            save_file(tensors | {"extra": torch.zeros(1)}, weights)
        case "tensor of another shape":
            save_file(tensors | {"encoder.layer_norm.weight": torch.zeros(33)}, weights)


@pytest.mark.parametrize(
    "how, message",
    [
        ("no weights", "no such file"),
        ("no config", "is missing"),
        ("config is no JSON", "no JSON"),
        ("config of another model", "not of a HuBERT"),
        ("huge width", "hidden_size"),
        ("width is text", "hidden_size"),
        ("too many layers", "num_hidden_layers"),
        ("heads that do not divide", "do not fit together"),
        ("convolutions of two lengths", "do not fit together"),
        ("unknown activation", "hidden_act"),
        ("another frame rate", "39 frames for 6480 samples, not 20"),
        ("weights cut off", "safetensors"),
        ("tensor missing", r"1 tensors missing \['encoder.layer_norm.weight'\]"),
        ("tensor unknown", r"1 unknown \['extra'\]"),
        ("tensor of another shape", "1 misshapen"),
    ],
)
def test_unfit_folders_are_refused(tmp_path, how, message):
    save_model(tmp_path)
    break_folder(tmp_path, how)
    with pytest.raises(CheckpointError, match=message):
        TransformersHubert.from_folder(tmp_path)


def test_the_recipe_is_the_same_every_time_and_hears_its_input():
    one, two = recipe_hubert(64, "miniature"), recipe_hubert(64, "miniature")
    frames = one.encode(WINDOWS)
    assert frames.shape == (3, 20, 64)
    assert torch.equal(frames, two.encode(WINDOWS))
    assert one.fingerprint == two.fingerprint
    assert torch.isfinite(frames).all()
    assert (frames[0] - frames[1]).abs().max() > 0.1


def test_the_large_recipe_has_huberts_own_sizes():
    """On the meta device: names and shapes only. HuBERT-large has 315.4 million parameters."""
    from ditto_core.speech import hubert

    sizes = dict(hubert._LARGE, hidden_size=1024, intermediate_size=4096)
    model = hubert._empty_model(sizes)
    assert sum(p.numel() for p in model.parameters()) == 315_438_720
    assert hubert._frames(model.config.conv_kernel, model.config.conv_stride) == 20


@pytest.mark.parametrize("features, size", [(63, "miniature"), (0, "large"), (64, "huge")])
def test_unknown_recipes_are_refused(features, size):
    with pytest.raises(InvalidValueError, match="recipe HuBERT"):
        recipe_hubert(features, size)


def write_onnx(path, *, batch_axis=False, name="input_values", stride=320, external=None):
    """The official file's form: (1, n) samples to (frames, features); here one strided convolution."""
    weight = np.random.default_rng(1).normal(0, 0.05, (24, 1, 400)).astype(np.float32)
    kernel = numpy_helper.from_array(weight, "kernel")
    if external:
        onnx.external_data_helper.set_external_data(kernel, external)
        kernel.ClearField("raw_data")
        kernel.data_location = TensorProto.EXTERNAL
    axes = numpy_helper.from_array(np.array([1]), "axes")
    nodes = [
        helper.make_node("Unsqueeze", [name, "axes"], ["wave"]),
        helper.make_node("Conv", ["wave", "kernel"], ["channels"], strides=[stride]),
        helper.make_node("Transpose", ["channels"], ["frames"], perm=[0, 2, 1]),
        helper.make_node("Squeeze", ["frames", "first"], ["encoding_out"]),
    ]
    first = numpy_helper.from_array(np.array([0]), "first")
    if batch_axis:
        nodes = [*nodes[:3], helper.make_node("Identity", ["frames"], ["encoding_out"])]
    graph = helper.make_graph(
        nodes,
        "hubert",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None])],
        [helper.make_tensor_value_info("encoding_out", TensorProto.FLOAT, None)],
        [kernel, axes, first],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return weight


@pytest.mark.parametrize("batch_axis", [False, True])
def test_the_onnx_encoder_runs_windows_one_by_one(tmp_path, batch_axis):
    pytest.importorskip("onnxruntime")
    weight = write_onnx(tmp_path / "hubert.onnx", batch_axis=batch_axis)
    hubert = OnnxHubert(tmp_path / "hubert.onnx", device="cpu")
    assert hubert.features == 24
    expected = torch.nn.functional.conv1d(WINDOWS[:, None], torch.from_numpy(weight), stride=320).transpose(1, 2)
    # float32 sums in another order
    torch.testing.assert_close(hubert.encode(WINDOWS), expected, atol=1e-5, rtol=0)
    assert speech_features(WINDOWS[0].numpy(), hubert, hop=5, lead=2000, batch=1).shape == (11, 24)


def test_the_provider_that_runs_is_reported_with_its_reason(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("says why CUDA does not run, and here it may")
    write_onnx(tmp_path / "hubert.onnx")
    said = f"onnxruntime {onnxruntime.__version__} CPUExecutionProvider"
    assert OnnxHubert(tmp_path / "hubert.onnx", device="cpu").executed_by == said
    automatic = OnnxHubert(tmp_path / "hubert.onnx").executed_by
    assert automatic == f"{said} (this onnxruntime is built without CUDA)"
    with pytest.raises(InvalidValueError, match="built without CUDA"):
        OnnxHubert(tmp_path / "hubert.onnx", device="cuda")


def test_unfit_onnx_files_are_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "hubert.onnx"
    with pytest.raises(CheckpointError, match="is missing"):
        OnnxHubert(path)
    path.write_bytes(b"no model")
    with pytest.raises(CheckpointError, match="can't be loaded"):
        OnnxHubert(path)
    write_onnx(path, name="speech")
    with pytest.raises(CheckpointError, match=r"takes the inputs \['speech'\]"):
        OnnxHubert(path)
    write_onnx(path, stride=640)
    with pytest.raises(CheckpointError, match=r"makes \(10, 24\)"):
        OnnxHubert(path)
    with pytest.raises(InvalidValueError, match="tpu"):
        OnnxHubert(path, device="tpu")


def test_weights_outside_the_onnx_files_folder_are_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(bytes(24 * 400 * 4))
    write_onnx(tmp_path / "model" / "hubert.onnx", external="../secret")
    with pytest.raises(CheckpointError, match="can't be loaded"):
        OnnxHubert(tmp_path / "model" / "hubert.onnx")


def test_without_onnxruntime_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackageError, match="pip install onnxruntime"):
        OnnxHubert(tmp_path / "hubert.onnx")
