"""`tilewright.io`: weights from files and to files.

    tilewright.io.save("model.safetensors", params)
    params = tilewright.io.load("model.safetensors", like=params)
    model = tilewright.io.open_model("llama.gguf")

The code is in `weights`. This folder gives it the public name: a folder `io` at the root would hide Python's in a checkout."""

from tilewright.weights import Checkpoint as Checkpoint
from tilewright.weights import ModelFile as ModelFile
from tilewright.weights import Packed4 as Packed4
from tilewright.weights import Packed8 as Packed8
from tilewright.weights import PackedMatrix as PackedMatrix
from tilewright.weights import PackedQ4K as PackedQ4K
from tilewright.weights import PackedQ6K as PackedQ6K
from tilewright.weights import StoredTensor as StoredTensor
from tilewright.weights import Tokenizer as Tokenizer
from tilewright.weights import UnknownTensorError as UnknownTensorError
from tilewright.weights import checkpoint as checkpoint
from tilewright.weights import is_packed as is_packed
from tilewright.weights import linear as linear
from tilewright.weights import load as load
from tilewright.weights import open_model as open_model
from tilewright.weights import rows as rows
from tilewright.weights import save as save
