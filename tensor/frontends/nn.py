"""Functions of neural networks on tensors: activations, norms, convolutions, pooling, losses, random numbers.

Each is the function of the same name in `ops`, which only composes primitives: what a model is made of fuses, has gradients,
and is no different from the same expression written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lift import all_lifted, lifted
from ..ops import convolution as C
from ..ops import neural as N
from ..ops import random as R
from ..ops.elementwise import sigmoid as _sigmoid
from ..ops.indexing import embedding as _embedding
from ..ops.linalg import linear as _linear
from .habits import no_network

relu, leaky_relu, elu, sigmoid, silu, softplus = all_lifted(N.relu, N.leaky_relu, N.elu, _sigmoid, N.silu, N.softplus)
mish, softsign, hardswish, gelu, softmax, log_softmax = all_lifted(N.mish, N.softsign, N.hardswish, N.gelu, N.softmax, N.log_softmax)

layer_norm, rms_norm, group_norm, instance_norm = all_lifted(N.layer_norm, N.rms_norm, N.group_norm, N.instance_norm)
batch_norm, batch_statistics, normalize = all_lifted(N.batch_norm, N.batch_statistics, N.normalize)

cross_entropy, nll_loss, one_hot, mse_loss, l1_loss = all_lifted(N.cross_entropy, N.nll_loss, N.one_hot, N.mse_loss, N.l1_loss)
huber_loss, bce_loss, bce_with_logits, kl_divergence = all_lifted(N.huber_loss, N.bce_loss, N.bce_with_logits, N.kl_divergence)

conv, conv_transpose, max_pool, avg_pool = all_lifted(C.conv, C.conv_transpose, C.max_pool, C.avg_pool)
global_avg_pool, linear, embedding = lifted(C.global_avg_pool), lifted(_linear), lifted(_embedding)

dropout, uniform, normal, randint, bernoulli = all_lifted(R.dropout, R.uniform, R.normal, R.randint, R.bernoulli)

if not TYPE_CHECKING:  # type checkers say themselves where a name is not here

    def __getattr__(name: str) -> object:
        raise AttributeError(name) if name.startswith("__") else no_network(name)
