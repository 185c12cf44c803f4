"""Media files from strangers: what is read, what is refused, and that nothing beside the given file is opened."""

import contextlib
import ctypes
import os
import resource
import struct
import sys
import zlib
from fractions import Fraction

import av
import numpy as np
import pytest

from ditto_core import media
from ditto_core.errors import InvalidValueError
from ditto_core.media import MediaError, MediaLimits, open_media, read_image
from ditto_core.speech import read_sound

# red | green over blue | white, each 16 x 24
QUARTERS = np.zeros((32, 48, 3), np.uint8)
QUARTERS[:16, :24], QUARTERS[:16, 24:], QUARTERS[16:, :24], QUARTERS[16:, 24:] = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 255, 255),
)


def write_sound(path, container="wav", codec="pcm_s16le", streams=1):
    with av.open(str(path), "w", format=container) as output:
        outputs = [output.add_stream(codec, rate=16000, layout="mono") for _ in range(streams)]
        for stream in outputs:
            frame = av.AudioFrame.from_ndarray(np.full((1, 1600), 0.1, np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 16000, 0, Fraction(1, 16000)
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    return path


def encode_picture(codec, pixels, pixel_format, source_format="rgb24"):
    frame = av.VideoFrame.from_ndarray(pixels, format=source_format)
    frame = frame.reformat(format=pixel_format, dst_color_range=2 if pixel_format.startswith("yuv") else None)
    encoder = av.CodecContext.create(codec, "w")
    encoder.width, encoder.height, encoder.pix_fmt = frame.width, frame.height, pixel_format
    encoder.time_base = Fraction(1, 25)
    encoder.options = {"mjpeg": {"qmin": "1", "qmax": "1"}, "libwebp": {"lossless": "1"}}.get(codec, {})
    if codec == "mjpeg":
        encoder.color_range = 2
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])


def png(width, height, kind, rows, chunks=()):
    """A PNG file from its rows; kind 0 grey, 2 RGB, 4 grey and alpha, 6 RGBA."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(b"\0" + row) for row in rows) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def exif(orientation):
    return b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


@contextlib.contextmanager
def opened_files(folder):
    """The names of all files that anything opens in a folder: the kernel tells, whichever library it is."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs inotify")
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, os.fsencode(folder), 0x20) >= 0
    names = set()
    try:
        yield names
    finally:
        with contextlib.suppress(BlockingIOError):
            events = os.read(watch, 1 << 16)
            while events:
                length = struct.unpack_from("iIII", events)[3]
                names.add(events[16 : 16 + length].rstrip(b"\0").decode())
                events = events[16 + length :]
        os.close(watch)


def mov_with_outside_data(path, sibling):
    """A QuickTime file whose sound lies in another file, named by a Macintosh alias record."""
    write_sound(path, "mov")
    data = path.read_bytes()
    target = sibling.name.encode()
    alias = b"\0" * 10 + b"\0" + b"\0" * 27 + b"\0" * 12 + bytes([len(target)]) + target.ljust(63, b"\0") + b"\0" * 16
    alias += struct.pack(">hh", 1, 1) + b"\0" * 16
    name = b"/" + target + (b"\0" if len(target) % 2 == 0 else b"")
    alias += struct.pack(">HH", 2, len(name)) + name + struct.pack(">hH", -1, 0)
    entry = struct.pack(">I", 12 + len(alias)) + b"alis\0\0\0\0" + alias
    place = data.index(b"dref") - 4
    old = struct.unpack_from(">I", data, place)[0]
    reference = struct.pack(">I4sII", 16 + len(entry), b"dref", 0, 1) + entry
    growth = len(reference) - old
    data = bytearray(data[:place] + reference + data[place + old :])
    for box in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        at = data.index(box) - 4
        struct.pack_into(">I", data, at, struct.unpack_from(">I", data, at)[0] + growth)
    path.write_bytes(data)


TRAPS = {
    "concat script": "ffconcat version 1.0\nfile sibling.wav\n",
    "HLS playlist": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nsibling.wav\n#EXT-X-ENDLIST\n",
    "session description": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
    "DASH manifest": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static">'
    "<Period><AdaptationSet><Representation><BaseURL>sibling.wav</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "picture that links": '<svg xmlns="http://www.w3.org/2000/svg"><image href="sibling.wav"/></svg>',
    "text": "hello",
    "nothing": "",
}


def test_the_watch_sees_what_an_unguarded_open_does(tmp_path):
    write_sound(tmp_path / "sibling.wav")
    (tmp_path / "speech.wav").write_text(TRAPS["concat script"])
    with opened_files(tmp_path) as names, av.open(str(tmp_path / "speech.wav")):
        pass
    assert names == {"speech.wav", "sibling.wav"}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("name, kind", [("speech.wav", "audio"), ("clip.mp4", "video"), ("face.png", "image")])
def test_files_that_point_to_others_are_refused_under_any_name(tmp_path, trap, name, kind):
    write_sound(tmp_path / "sibling.wav")
    (tmp_path / name).write_text(TRAPS[trap])
    with opened_files(tmp_path) as names, pytest.raises(MediaError, match=f"no {kind} file that is read here"):
        with open_media(tmp_path / name, kind):
            pass
    assert names == {name}


def test_sound_kept_in_another_file_is_refused(tmp_path):
    write_sound(tmp_path / "sibling.wav")
    mov_with_outside_data(tmp_path / "speech.mov", tmp_path / "sibling.wav")
    with opened_files(tmp_path) as names, av.open(str(tmp_path / "speech.mov"), options={"enable_drefs": "1"}):
        pass
    assert names == {"speech.mov", "sibling.wav"}, "the trap itself must work"
    with opened_files(tmp_path) as names, pytest.raises(MediaError, match="no sound"):
        read_sound(tmp_path / "speech.mov")
    assert names == {"speech.mov"}


def test_a_demuxer_that_wants_another_file_gets_none(tmp_path, monkeypatch):
    """The second lock, should a listed demuxer ever open files: here with FFmpeg's concat let in."""
    monkeypatch.setitem(media.FORMATS, "audio", ("concat", "wav"))
    write_sound(tmp_path / "sibling.wav")
    (tmp_path / "speech.wav").write_text(TRAPS["concat script"])
    monkeypatch.chdir(tmp_path)
    with opened_files(tmp_path) as names, pytest.raises(MediaError, match="no audio file"):
        read_sound(tmp_path / "speech.wav")
    assert names == {"speech.wav"}


@pytest.mark.parametrize("name", ["http://127.0.0.1:9/a.wav", "concat:a.wav|b.wav", "pipe:0", "file:a.wav", "a%d.wav"])
def test_a_name_is_a_file_name_and_nothing_else(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for n in ("a.wav", "b.wav", "a1.wav"):
        write_sound(tmp_path / n)
    with opened_files(tmp_path) as names, pytest.raises(MediaError, match="is not a file"):
        read_sound(name)
    assert not names


@pytest.mark.parametrize("name", ["frame%03d.png", "*.png", "pipe:0", "concat:x|y"])
def test_a_file_with_a_name_like_a_pattern_is_read_itself(tmp_path, name):
    for other in ("frame001.png", "a.png"):
        (tmp_path / other).write_bytes(png(2, 2, 0, [b"\xff\xff"] * 2))
    (tmp_path / name).write_bytes(png(3, 1, 0, [b"\x07\x08\x09"]))
    with opened_files(tmp_path) as names:
        assert read_image(tmp_path / name)[..., 0].tolist() == [[7, 8, 9]]
    assert names == {name}


@pytest.mark.parametrize("special", ["/dev/zero", "."])
def test_devices_and_folders_are_not_files(special):
    with pytest.raises(MediaError, match="is not a file"):
        read_sound(special)


def bmp_header(width, height):
    return b"BM" + struct.pack("<IIIIiiHHIIiiII", 200, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(146)


def jpeg_header(width, height):
    picture = bytearray(encode_picture("mjpeg", QUARTERS, "yuvj444p"))
    at = picture.index(b"\xff\xc0") + 5
    picture[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(picture)


BOMBS = {
    "png": lambda: png(20000, 20000, 0, (bytes(20000) for _ in range(20000))),
    "jpg": lambda: jpeg_header(60000, 60000),
    "bmp": lambda: bmp_header(40000, 40000),
}


@pytest.mark.parametrize("ending", BOMBS)
def test_pixel_bombs_are_refused_before_their_memory_is_taken(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(BOMBS[ending]())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MediaError, match="pixels"):
        read_image(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_picture_at_the_limit_is_read(tmp_path):
    (tmp_path / "a.png").write_bytes(png(100, 50, 0, [bytes(100)] * 50))
    assert read_image(tmp_path / "a.png", limits=MediaLimits(pixels=5000)).shape == (50, 100, 3)
    with pytest.raises(MediaError, match="100x50, above 4999 pixels"):
        read_image(tmp_path / "a.png", limits=MediaLimits(pixels=4999))


def test_too_many_streams_are_refused(tmp_path):
    path = write_sound(tmp_path / "a.mkv", "matroska", streams=6)
    with pytest.raises(MediaError, match="more than 5 streams"):
        read_sound(path, limits=MediaLimits(streams=5))
    assert read_sound(path, limits=MediaLimits(streams=6)).samples.shape == (1, 1600)
    with pytest.raises(MediaError):
        read_sound(path, limits=MediaLimits(streams=2))


def test_limits_above_zero_only():
    with pytest.raises(InvalidValueError, match="pixels"):
        MediaLimits(pixels=0)


def oriented(picture, orientation):
    """What EXIF 2.32 says of tag 274: where the stored first row and first column are to be shown."""
    stored = {
        1: picture,
        2: picture[:, ::-1],
        3: picture[::-1, ::-1],
        4: picture[::-1],
        5: picture.swapaxes(0, 1),
        6: picture.swapaxes(0, 1)[:, ::-1],
        7: picture.swapaxes(0, 1)[::-1, ::-1],
        8: picture.swapaxes(0, 1)[::-1],
    }
    return stored[orientation]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_also_when_mirrored(tmp_path, orientation):
    """Mirrored ones (2, 4, 5, 7) included; a rotation angle alone can't tell them. JPEG within 3 of 255, PNG exact."""
    expected = oriented(QUARTERS, orientation)
    picture = encode_picture("mjpeg", QUARTERS, "yuvj444p")
    segment = b"Exif\0\0" + exif(orientation)
    tagged = picture[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + picture[2:]
    (tmp_path / "a.jpg").write_bytes(tagged)
    difference = read_image(tmp_path / "a.jpg").astype(int) - expected
    assert np.abs(difference).max() <= 3
    rows = [row.tobytes() for row in QUARTERS]
    (tmp_path / "a.png").write_bytes(png(48, 32, 2, rows, [(b"eXIf", exif(orientation))]))
    assert np.array_equal(read_image(tmp_path / "a.png"), expected)


def test_grey_is_expanded_and_alpha_dropped_without_compositing(tmp_path):
    (tmp_path / "grey.png").write_bytes(png(3, 1, 0, [b"\0\x80\xff"]))
    assert read_image(tmp_path / "grey.png").tolist() == [[[0] * 3, [128] * 3, [255] * 3]]
    (tmp_path / "grey_alpha.png").write_bytes(png(2, 1, 4, [b"\x30\x00\x40\xff"]))
    assert read_image(tmp_path / "grey_alpha.png").tolist() == [[[0x30] * 3, [0x40] * 3]]
    (tmp_path / "alpha.png").write_bytes(png(2, 1, 6, [b"\x01\x02\x03\x00\x04\x05\x06\x80"]))
    assert read_image(tmp_path / "alpha.png").tolist() == [[[1, 2, 3], [4, 5, 6]]]


@pytest.mark.parametrize(
    "codec, pixel_format, ending",
    [("bmp", "bgr24", "bmp"), ("tiff", "rgb24", "tiff"), ("png", "rgb48be", "png"), ("libwebp", "bgra", "webp")],
)
@pytest.mark.parametrize("height, width", [(32, 48), (17, 31), (1, 1)])
def test_lossless_pictures_of_any_size_are_exact(tmp_path, codec, pixel_format, ending, height, width):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(encode_picture(codec, np.ascontiguousarray(QUARTERS[:height, :width]), pixel_format))
    assert np.array_equal(read_image(path), QUARTERS[:height, :width])


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_half_a_picture_is_refused(tmp_path, ending):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    whole = png(64, 64, 2, [row.tobytes() for row in noise])
    data = whole if ending == "png" else encode_picture("mjpeg", noise, "yuvj444p")
    (tmp_path / f"a.{ending}").write_bytes(data[: len(data) // 2])
    with pytest.raises(MediaError, match="damaged"):
        read_image(tmp_path / f"a.{ending}")


def write_video(path, *, colour=(200, 60, 30), size=(64, 96), space=1, frames=5, rate=Fraction(30000, 1001)):
    """Plain pictures, losslessly, tagged BT.709 (1) or BT.601 (6), TV range."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=rate, options={"qp": "0"})
        stream.height, stream.width, stream.pix_fmt = *size, "yuv444p"
        stream.codec_context.color_range, stream.codec_context.colorspace = 1, space
        luma = {1: (0.2126, 0.7152, 0.0722), 6: (0.299, 0.587, 0.114)}[space]
        y = np.dot(luma, colour) / 255
        values = [
            16 + 219 * y,
            128 + 112 * (colour[2] / 255 - y) / (1 - luma[2]),
            128 + 112 * (colour[0] / 255 - y) / (1 - luma[0]),
        ]
        for i in range(frames):
            planes = np.broadcast_to(np.round(values)[:, None, None], (3, *size)).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(planes.reshape(-1, size[1]).copy().reshape(3, *size), format="yuv444p")
            frame.pts, frame.colorspace, frame.color_range = i, space, 1
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("space", [1, 6])
def test_video_pictures_have_the_colours_that_its_tags_say(tmp_path, space):
    """Within 2 of 255: the colour is rounded to YUV once and back once."""
    path = write_video(tmp_path / "a.mp4", space=space)
    with open_media(path, "video") as clip:
        assert clip.fps == Fraction(30000, 1001)
        pictures = list(clip.pictures())
    assert [p.shape for p in pictures] == [(64, 96, 3)] * 5
    assert np.abs(pictures[0].astype(int) - (200, 60, 30)).max() <= 2


def test_a_phone_video_is_turned_upright(tmp_path):
    path = write_video(tmp_path / "a.mp4")
    data = bytearray(path.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40
    data[matrix : matrix + 20] = struct.pack(">iiiii", 0, 1 << 16, 0, -(1 << 16), 0)
    path.write_bytes(data)
    with open_media(path, "video") as clip:
        assert next(clip.pictures()).shape == (96, 64, 3)
    data[matrix : matrix + 20] = struct.pack(">iiiii", 1 << 15, 1 << 15, 0, -(1 << 15), 1 << 15)
    path.write_bytes(data)
    with open_media(path, "video") as clip, pytest.raises(MediaError, match="odd angle"):
        next(clip.pictures())


def test_video_limits_and_missing_streams(tmp_path):
    path = write_video(tmp_path / "a.mkv", frames=40)
    with pytest.raises(MediaError, match="96x64"), open_media(path, "video", limits=MediaLimits(pixels=6143)):
        pass
    short = MediaLimits(duration_s=1)
    with pytest.raises(MediaError, match="longer than 1 s"), open_media(path, "video", limits=short):
        pass
    with pytest.raises(MediaError, match="holds no audio"):
        read_sound(path)
    write_sound(tmp_path / "b.mkv", "matroska")
    with pytest.raises(MediaError, match="holds no video"), open_media(tmp_path / "b.mkv", "video"):
        pass
