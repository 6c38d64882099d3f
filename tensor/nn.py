"""Functions of neural networks on tensors: activations, norms, convolutions, pooling, losses, random numbers.

Each is the function of the same name in `ops`, which only composes primitives: what a model is made of fuses, has gradients,
and is no different from the same expression written out."""

from __future__ import annotations

from .lift import lifted
from .ops import activations as A
from .ops import convolution as C
from .ops import convolution as P
from .ops import indexing as I
from .ops import linalg as L
from .ops import losses as S
from .ops import norms as N
from .ops import random as Z

relu, leaky_relu, elu, sigmoid, silu = lifted(A.relu), lifted(A.leaky_relu), lifted(A.elu), lifted(A.sigmoid), lifted(A.silu)
softplus, mish, softsign, hardswish = lifted(A.softplus), lifted(A.mish), lifted(A.softsign), lifted(A.hardswish)
gelu, softmax, log_softmax = lifted(A.gelu), lifted(A.softmax), lifted(A.log_softmax)

layer_norm, rms_norm, group_norm = lifted(N.layer_norm), lifted(N.rms_norm), lifted(N.group_norm)
instance_norm, batch_norm, normalize = lifted(N.instance_norm), lifted(N.batch_norm), lifted(N.normalize)
batch_statistics = lifted(N.batch_statistics)

conv, conv_transpose = lifted(C.conv), lifted(C.conv_transpose)
max_pool, avg_pool, global_avg_pool = lifted(P.max_pool), lifted(P.avg_pool), lifted(P.global_avg_pool)
linear, embedding = lifted(L.linear), lifted(I.embedding)

cross_entropy, nll_loss, one_hot = lifted(S.cross_entropy), lifted(S.nll_loss), lifted(S.one_hot)
mse_loss, l1_loss, huber_loss = lifted(S.mse_loss), lifted(S.l1_loss), lifted(S.huber_loss)
bce_loss, bce_with_logits, kl_divergence = lifted(S.bce_loss), lifted(S.bce_with_logits), lifted(S.kl_divergence)

dropout, uniform, normal, randint, bernoulli = (lifted(f) for f in (Z.dropout, Z.uniform, Z.normal, Z.randint, Z.bernoulli))
