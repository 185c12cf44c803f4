"""Face analysis on real, tiny ONNX files in the official layout, and the pure parts round the models."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from support import recipes

from ditto_core.avatar import OnnxFaceAnalysis
from ditto_core.avatar.analysis import MissingDetectorsError, missing_files
from ditto_core.avatar.detect import DetectorError, detect_faces, suppress
from ditto_core.avatar.landmarks import landmarks_203
from ditto_core.avatar.mesh import NoMeshError, blaze_faces, mesh_points
from ditto_core.avatar.sessions import open_session
from ditto_core.checkpoints.auxiliary import AUXILIARY
from ditto_core.errors import CheckpointError, MissingPackageError

PICTURE = recipes.image_hwc("analysis", 256, 512)


def constant_model(path: Path, shape: tuple[int, ...], outputs: list[NDArray[np.float32]], kind: int = 1) -> Path:
    """An ONNX file of one input that answers with the same arrays whatever it sees."""
    nodes, results = [], []
    for i, value in enumerate(outputs):
        tensor = numpy_helper.from_array(value, f"value{i}")
        nodes.append(helper.make_node("Constant", [], [f"c{i}"], value=tensor))
        nodes.append(helper.make_node("Identity", [f"c{i}"], [f"out{i}"]))
        results.append(helper.make_tensor_value_info(f"out{i}", TensorProto.FLOAT, value.shape))
    inputs = [helper.make_tensor_value_info("picture", kind, shape)]
    graph = helper.make_graph(nodes, "constant", inputs, results)
    path.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def detector_outputs(*faces: tuple[int, int, float]) -> list[NDArray[np.float32]]:
    """What a detector says of faces of 96 x 128 pixels round cells (x, y) of stride 32, with scores."""
    outputs = [np.zeros((2 * (512 // stride) ** 2, n), np.float32) for n in (1, 4, 10) for stride in (8, 16, 32)]
    for x, y, score in faces:
        anchor = 2 * (16 * y + x)
        outputs[2][anchor] = score
        outputs[5][anchor] = [1.5, 2, 1.5, 2]
    return outputs


def blaze_outputs(logit: float) -> list[NDArray[np.float32]]:
    """What BlazeFace says of a level face in the middle of the picture, half its size."""
    values, logits = np.zeros((1, 896, 16), np.float32), np.full((1, 896, 1), -50, np.float32)
    anchor = 2 * (16 * 8 + 8)  # its centre is 68 of 128
    logits[0, anchor] = logit
    values[0, anchor, :8] = [-4, -4, 64, 64, -20, -10, 12, -10]
    return [values, logits]


def write_models(folder: Path, *, official_download: bool = False, logit: float = 5.0) -> Path:
    """All five files, in one of the two official layouts."""
    place = folder / "ditto_onnx"
    points = np.linspace(0, 1, 406, dtype=np.float32)[None]
    old = official_download
    auxiliary = folder / "ditto_pytorch" / "aux_models" if old else place
    constant_model(
        auxiliary / AUXILIARY["face detector"][int(old)], (1, 3, 512, 512), detector_outputs((5, 3, 0.8), (11, 4, 0.9))
    )
    constant_model(auxiliary / AUXILIARY["106 landmarks"][int(old)], (1, 3, 192, 192), [np.zeros((1, 212), np.float32)])
    others = [np.zeros((1, 214), np.float32)] if old else []
    constant_model(auxiliary / "landmark203.onnx", (1, 3, 224, 224), [*others, points])
    constant_model(place / AUXILIARY["face box for the mesh"][0], (1, 128, 128, 3), blaze_outputs(logit))
    mesh = np.tile(np.float32([128, 64, 10]), 478).reshape(1, 1, 1, 1434)
    constant_model(place / AUXILIARY["face mesh"][0], (1, 256, 256, 3), [mesh])
    return folder


@pytest.mark.parametrize("official_download", [False, True])
def test_official_layouts_run_through_onnxruntime(tmp_path: Path, official_download: bool) -> None:
    analysis = OnnxFaceAnalysis(write_models(tmp_path, official_download=official_download))
    faces = analysis.faces(PICTURE)
    # by falling score; the picture is as wide as the detector's input, so that nothing is scaled
    np.testing.assert_allclose(faces.boxes, [[304, 64, 400, 192], [112, 32, 208, 160]])
    np.testing.assert_allclose(faces.scores, [0.9, 0.8])
    # zeros are the middle of the input, which is the middle of the box
    np.testing.assert_allclose(analysis.landmarks_106(PICTURE, faces.boxes[0])[7], [352, 128], atol=1e-3)
    points = analysis.landmarks_203(PICTURE[:224, :224], np.diag([2.0, 2.0, 1.0]))
    np.testing.assert_allclose(points[[0, -1]], [[0, 448 / 405], [448 * 404 / 405, 448]], rtol=1e-5)


def test_mesh_is_placed_in_the_region_that_blazeface_found(tmp_path: Path) -> None:
    analysis = OnnxFaceAnalysis(write_models(tmp_path))
    points = analysis.mesh(recipes.image_hwc("mesh", 512, 512))
    # the middle of the region is the face's: 64 of 128; a quarter of the region (1.5 x the face) higher, in 0..1
    np.testing.assert_allclose(points[0], [0.5, 0.5 - 0.25 * 0.75, 10 / 256 * 0.75], atol=1e-5)


def test_no_face_in_the_crop_is_said(tmp_path: Path) -> None:
    analysis = OnnxFaceAnalysis(write_models(tmp_path, logit=-5.0))
    with pytest.raises(NoMeshError, match="no face in the crop"):
        analysis.mesh(PICTURE)


def test_missing_files_are_named_with_the_way_out(tmp_path: Path) -> None:
    write_models(tmp_path)
    (tmp_path / "ditto_onnx" / "face_mesh.onnx").unlink()
    (tmp_path / "ditto_onnx" / "insightface_det.onnx").unlink()
    (tmp_path / "face_landmarker.task").touch()
    assert missing_files(tmp_path) == ("insightface_det.onnx or det_10g.onnx", "face_mesh.onnx")
    with pytest.raises(MissingDetectorsError, match=r"det_10g.onnx.*face_mesh.*\.task file is not read.*a box, or"):
        OnnxFaceAnalysis(tmp_path)


def test_without_onnxruntime_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_models(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackageError, match=r"ditto-live\[detectors\]"):
        OnnxFaceAnalysis(tmp_path)


def test_damaged_or_foreign_model_files_are_refused(tmp_path: Path) -> None:
    good = constant_model(tmp_path / "good.onnx", (1, 2), [np.zeros((1, 2), np.float32)])
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(good.read_bytes()[:-20])
    text = tmp_path / "text.onnx"
    text.write_text("<html>not found</html>")
    whole = constant_model(tmp_path / "int.onnx", (1, 2), [np.zeros((1, 2), np.float32)], TensorProto.INT64)
    for path in (cut, text, whole, tmp_path / "absent.onnx"):
        with pytest.raises(CheckpointError, match=path.name):
            open_session(path)
    with pytest.raises(CheckpointError, match="shape"):
        open_session(good)(np.zeros((3, 3), np.float32))


def test_weights_in_another_file_are_refused(tmp_path: Path) -> None:
    path = constant_model(tmp_path / "model.onnx", (1, 2), [np.zeros((1, 2), np.float32)])
    model = onnx.load(path)
    tensor = model.graph.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match="another file"):
        open_session(path)


def test_outputs_that_such_a_model_cannot_give_are_refused() -> None:
    with pytest.raises(DetectorError, match=r"det_10g\.onnx"):
        detect_faces(PICTURE, lambda _: [np.zeros((10, 4), np.float32), np.float32(3)])
    broken = detector_outputs((3, 3, 0.9))
    broken[5][5] = np.nan
    with pytest.raises(DetectorError, match="not finite"):
        detect_faces(PICTURE, lambda _: broken)
    with pytest.raises(DetectorError, match=r"landmark203\.onnx"):
        landmarks_203(PICTURE[:224, :224], np.eye(3), lambda _: [np.zeros(212, np.float32)])
    values, logits = blaze_outputs(3.0)
    with pytest.raises(DetectorError, match="not finite"):
        mesh_points(PICTURE, lambda _: [values, logits], lambda _: [np.full(1434, np.inf, np.float32)])


def test_a_picture_without_faces_gives_none() -> None:
    faces = detect_faces(PICTURE, lambda _: detector_outputs())
    assert faces.boxes.shape == (0, 4)
    assert len(faces.largest_first().scores) == 0
    values, logits = blaze_outputs(-9.0)
    assert blaze_faces(values[0], logits[0, :, 0]).shape == (0, 17)


boxes = st.lists(
    st.tuples(st.floats(0, 200), st.floats(0, 200), st.floats(1, 100), st.floats(1, 100)), min_size=1, max_size=30
)


@given(boxes)
def test_suppression_keeps_a_box_for_every_cluster(found: list[tuple[float, ...]]) -> None:
    corners = np.array([(x, y, x + w, y + h) for x, y, w, h in found])

    def overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        shared = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + 1).prod()
        return float(shared / ((a[2:] - a[:2] + 1).prod() + (b[2:] - b[:2] + 1).prod() - shared))

    kept = suppress(corners)
    assert kept[0] == 0
    for i in range(len(corners)):
        rivals = [overlap(corners[k], corners[i]) for k in kept if k < i]
        assert (i in kept) == all(value <= 0.4 for value in rivals)
