#!/usr/bin/env python3
"""The weighted mean of two int4 checkpoints of one origin, rounded to int4 again.

usage: average.py A_DIR B_DIR SHARE_OF_B CORPUS.jsonl[.xz] OUT_DIR
Rounding goes column by column and makes each one's error good in those that follow (GPTQ), as far as the inputs of a
layer show: those of a few samples, answers weighing most. Groups keep the mean of both scales, so that weights with
the same code in both stay what they are. Needs torch, tokenizers, safetensors, numpy.
"""
import os
import random
import sys

import torch
from tokenizers import Tokenizer

import feed
import model as M
import renaming
import samples as S
from sources import Coder

ROWS, LENGTH = 4, 2048  # samples that show what layers get
ANSWERS = 2.5  # weight of an answer's token, of others 1
DAMPING = 0.01


def drawn(corpus, tokenizer_path):
    """ROWS samples: (ids, loss weights)."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    repos = feed.load_corpus([corpus], tokenizer)
    builder = S.Builder(repos, Coder(tokenizer), random.Random(71), feed.RENAMING, feed.EXCHANGING,
                        renaming.Names(repos))
    return [builder.sample(LENGTH) for _ in range(ROWS)]


@torch.no_grad()
def second_moments(model, rows):
    """{name of a quantised layer: X^T X of its inputs}, [inputs, inputs] in float32."""
    moments, weights = {}, None

    def watch(name):
        def seen(_, inputs, __):
            x = inputs[0].reshape(-1, inputs[0].shape[-1]).float() * weights[:, None]
            moments[name] = moments.get(name, 0) + x.t() @ x
        return seen

    for name, module in model.named_modules():
        if isinstance(module, M.Linear) and module.quantised:
            module.register_forward_hook(watch(name))
    for ids, loss_weights in rows:
        weights = torch.from_numpy(1 + (ANSWERS - 1) * (loss_weights > 0.25)).float()
        x = torch.tensor([ids.tolist()])
        model.draft(torch.roll(x, -1, 1), model.hidden(x))
    return moments


def rounded(w, scales, moments):
    """w [out, in] as codes -8 to 7 of scales [out, in / GROUP], so that little of w @ inputs is lost."""
    w, moments, codes = w.clone(), moments.clone(), torch.empty_like(w)
    moments.diagonal().add_(DAMPING * moments.diagonal().mean())
    inverse = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(moments)), upper=True)
    for at in range(0, w.shape[1], M.GROUP):
        group, scale = w[:, at:at + M.GROUP], scales[:, at // M.GROUP]
        factor, errors = inverse[at:at + M.GROUP, at:at + M.GROUP], torch.empty_like(group)
        for j in range(M.GROUP):
            codes[:, at + j] = (group[:, j] / scale).round().clamp(-8, 7)
            errors[:, j] = (group[:, j] - codes[:, at + j] * scale) / factor[j, j]
            group[:, j + 1:] -= errors[:, j, None] * factor[j, j + 1:]
        w[:, at + M.GROUP:] -= errors @ inverse[at:at + M.GROUP, at + M.GROUP:]
    return codes


def scales_of(folder):
    """{name of a quantised layer: scales [out, in / GROUP]}."""
    from safetensors.torch import load_file
    stored = load_file(os.path.join(folder, 'model.safetensors'))
    return {n[:-len('.scales')]: t.float().t() for n, t in stored.items() if n.endswith('.scales')}


def main(a, b, share, corpus, out):
    tensors = [M.dequantised(os.path.join(folder, 'model.safetensors')) for folder in (a, b)]
    model = M.Model(M.CONFIG)
    model.load_state_dict({n: torch.lerp(t, tensors[1][n], share) for n, t in tensors[0].items()})
    M.Linear.int4 = False
    moments = second_moments(model.eval(), drawn(corpus, os.path.join(a, 'tokenizer.json')))
    first, second = scales_of(a), scales_of(b)
    packed = {}
    for name, module in model.named_modules():
        if name in moments:
            scales = torch.lerp(first[name], second[name], share).half()
            codes = rounded(module.weight.detach(), scales.float(), moments[name])
            packed[name] = M.packed_codes(codes, scales)
            print(name, flush=True)
    M.export(model, os.path.join(a, 'tokenizer.json'), out, packed=packed)


if __name__ == '__main__':
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:])
