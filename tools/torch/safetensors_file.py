"""Reads and writes safetensors files of F32 and F64 tensors, with nothing but PyTorch."""

import json
import struct

import torch

TYPES = {"F32": torch.float32, "F64": torch.float64}


def read(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        flat = torch.frombuffer(data[first:end], dtype=TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors


def write(path, tensors):
    names = {dtype: name for name, dtype in TYPES.items()}
    header, data = {}, b""
    for name, tensor in tensors.items():
        piece = bytes(tensor.detach().contiguous().view(torch.uint8).flatten().tolist())
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
