"""Adversarial training of embedded words (Miyato, Dai and Goodfellow, ICLR 2017)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

MIN_LENGTH = 1e-30
"""Norm of a gradient that is divided by instead of a smaller one: sequences that do not count have no gradient."""


def add_adversary(encoder: nn.Embedding, norm: float, compute: Callable[[], Tensor]) -> Tensor:
    """Return the mean of a loss and of the same loss for perturbed words.

    The perturbation of a sequence is its gradient of the loss with respect to the vectors of its words, scaled to a
    norm. It increases the loss most, for small norms. Padding is not perturbed.

    Args:
        encoder: The embedding.
        norm: Norm of the perturbation of each sequence, over all of its words.
        compute: Computes the loss from a batch with the encoder, and from the same batch each time.
    """
    words: list[Tensor] = []
    vectors: list[Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        words.append(inputs[0])
        vectors.append(output)

    with encoder.register_forward_hook(keep):
        loss = compute()
    (gradient,) = torch.autograd.grad(loss.sum(), vectors, retain_graph=True)
    if encoder.padding_idx is not None:
        gradient = gradient.masked_fill((words[0] == encoder.padding_idx).unsqueeze(-1), 0)
    # (time, batch, features)
    length = torch.linalg.vector_norm(gradient, dim=(0, 2), keepdim=True)
    perturbation = gradient * (norm / length.clamp(min=MIN_LENGTH))
    with encoder.register_forward_hook(lambda module, inputs, output: output + perturbation):
        return (loss + compute()) / 2
