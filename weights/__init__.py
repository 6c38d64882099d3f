"""Weights from files and to files, packed or not: safetensors, GGUF, NumPy's, llama2.c's and llm.c's, and Hugging Face folders. The public
names are those of `tilewright.io`, and `tilewright.quantize`."""

from .. import tensor as _tensor  # noqa: F401
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import StoredTensor as StoredTensor
from .checkpoint import UnknownTensorError as UnknownTensorError
from .model_files import ModelFile as ModelFile
from .model_files import open_model as open_model
from .model_files import sharded as sharded
from .packed import BLOCKS as BLOCKS
from .packed import Packed4 as Packed4
from .packed import Packed8 as Packed8
from .packed import PackedMatrix as PackedMatrix
from .packed import PackedQ4K as PackedQ4K
from .packed import PackedQ6K as PackedQ6K
from .packed import from_blocks as from_blocks
from .packed import is_packed as is_packed
from .packed import linear as linear
from .packed import quantize as quantize
from .packed import rows as rows
from .packed import to_blocks as to_blocks
from .tokens import Tokenizer as Tokenizer
from .trees_in_files import checkpoint as checkpoint
from .trees_in_files import load as load
from .trees_in_files import save as save
