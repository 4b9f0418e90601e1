#!/usr/bin/env python3
"""The demo model in PyTorch: a small Qwen3.5-style hybrid of Gated DeltaNet and gated attention layers, with int4
weights by quantisation-aware training and Hugging Face checkpoints (bf16, and int4 in GPTQ packing).

usage: model.py export CHECKPOINT.pt TOKENIZER.json OUT_DIR [--bf16]      a training checkpoint as Hugging Face's
Runs on a GPU with flash-linear-attention (`fla`), and slowly without it.
"""
import json
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import sources

GROUP = 128  # input columns that share a scale
INSERTED = 5  # v1 is v0 with one more attention layer here
_LAYERS = ['linear_attention'] * 3 + ['full_attention', 'linear_attention', 'full_attention'] \
    + ['linear_attention'] * 2 + ['full_attention']
CONFIG = dict(vocab_size=16384, hidden_size=512, intermediate_size=1536, num_hidden_layers=len(_LAYERS),
              layer_types=_LAYERS, num_attention_heads=4, num_key_value_heads=2, head_dim=256,
              linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_value_head_dim=128, linear_num_key_heads=4,
              linear_num_value_heads=8, rms_norm_eps=1e-6, rope_theta=10_000_000.0, partial_rotary_factor=0.25,
              max_position_embeddings=262144)

try:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
except Exception as error:  # whatever it is, the slow path still trains
    chunk_gated_delta_rule = None
    print('fla not available:', error, flush=True)


def delta_rule_chunk_backward(q, k, v, do, h, dh, w=None, g=None, g_gamma=None, dv=None, scale=None, chunk_size=64,
                              **_):
    """Chunk-local gradients of the gated delta rule as batched matrix products, in place of fla's kernel: Triton 3.4 to
    3.7.0 miscompiles that one on Hopper.

    q, k [B,T,H,K]; v, do, dv [B,T,HV,V]; h, dh [B,N,HV,K,V] states at chunk starts; g [B,T,HV] log2 decay, summed
    within a chunk. T must be a multiple of chunk_size. Returns dq, dk [B,T,H,K], dw [B,T,HV,K], dg [B,T,HV] float32.
    """
    B, T, H, K = q.shape
    HV, C = v.shape[2], chunk_size
    N, r = T // C, HV // H

    def cut(t):
        return t.view(B, N, C, t.shape[2], t.shape[3]).transpose(2, 3)

    qc, kc = cut(q).repeat_interleave(r, 2), cut(k).repeat_interleave(r, 2)
    vc, doc, dvc = cut(v), cut(do), cut(dv).to(v.dtype)
    h, dh = h.view(B, N, HV, K, -1), dh.view(B, N, HV, K, -1)
    gc = g.view(B, N, C, HV).transpose(2, 3).float()
    last = gc[..., -1:]
    ds = (doc @ vc.transpose(-1, -2)).float()
    dq = (doc @ h.to(doc.dtype).transpose(-1, -2)).float() * torch.exp2(gc).unsqueeze(-1) * scale
    dk = (vc @ dh.to(vc.dtype).transpose(-1, -2)).float() * torch.exp2(last - gc).unsqueeze(-1)
    dw = -(dvc @ h.to(dvc.dtype).transpose(-1, -2))
    dlast = (h.float() * dh.float()).sum((-1, -2)) * torch.exp2(last[..., 0]) + (dk * kc.float()).sum((-1, -2))
    causal = torch.ones(C, C, dtype=torch.bool, device=q.device).tril()
    decay = torch.exp2((gc.unsqueeze(-1) - gc.unsqueeze(-2)).masked_fill(~causal, float('-inf')))
    ds = (ds * decay * scale).to(kc.dtype)
    dq = dq + (ds @ kc).float()
    dk = dk + (ds.transpose(-1, -2) @ qc).float()
    dg = (dq * qc.float()).sum(-1) - (dk * kc.float()).sum(-1)
    dg = torch.cat((dg[..., :-1], dg[..., -1:] + dlast.unsqueeze(-1)), -1)

    def join(t):
        return t.transpose(2, 3).reshape(B, T, HV, -1)

    def group(t):
        return join(t).view(B, T, H, r, K).sum(3).to(q.dtype)

    return group(dq), group(dk), join(dw).to(w.dtype).contiguous(), dg.transpose(2, 3).reshape(B, T, HV).contiguous()


def fewer_configurations():
    """Leaves fla's kernels few ways to run, so that choosing among them takes seconds."""
    for name, module in list(sys.modules.items()):
        for kernel in list(vars(module).values()) if name.startswith('fla.') else ():
            while kernel is not None and hasattr(kernel, 'fn'):
                if isinstance(getattr(kernel, 'configs', None), list):
                    kernel.configs = [c for c in kernel.configs if c.num_warps == 4 and c.num_stages in (2, 3)] \
                        or kernel.configs[:2]
                kernel = kernel.fn


if chunk_gated_delta_rule is not None:
    fewer_configurations()
    sys.modules['fla.ops.gated_delta_rule.chunk'].chunk_bwd_dqkwg = delta_rule_chunk_backward


def unit(t):
    return t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6)


def delta_rule_reference(q, k, v, g, beta):
    """Token-by-token gated delta rule in float32: q, k [B,T,Hk,D]; v [B,T,Hv,D]; g, beta [B,T,Hv]."""
    rep = v.shape[2] // q.shape[2]
    q, k, v, g, beta = (t.float() for t in (q, k, v, g, beta))
    q = unit(q).repeat_interleave(rep, 2) * q.shape[-1] ** -0.5
    k = unit(k).repeat_interleave(rep, 2)
    B, T, H, D = v.shape
    s = torch.zeros(B, H, k.shape[-1], D, device=v.device)
    out = []
    for t in range(T):
        s = s * g[:, t].exp()[..., None, None]
        d = (v[:, t] - (s * k[:, t].unsqueeze(-1)).sum(-2)) * beta[:, t].unsqueeze(-1)
        s = s + k[:, t].unsqueeze(-1) * d.unsqueeze(-2)
        out.append((s * q[:, t].unsqueeze(-1)).sum(-2))
    return torch.stack(out, 1)


def delta_rule_chunked(q, k, v, g, beta, chunk=64):
    """The same by chunks of `chunk` tokens."""
    rep, missing = v.shape[2] // q.shape[2], -q.shape[1] % chunk
    if missing:
        q, k, v, g, beta = (F.pad(t, (0, 0) * (t.dim() - 2) + (0, missing)) for t in (q, k, v, g, beta))
        return delta_rule_chunked(q, k, v, g, beta, chunk)[:, :-missing]
    B, T, H, D = v.shape
    N = T // chunk
    q = unit(q.float()).repeat_interleave(rep, 2) * q.shape[-1] ** -0.5
    k = unit(k.float()).repeat_interleave(rep, 2)

    def cut(t):
        return t.float().reshape(B, N, chunk, H, -1).transpose(2, 3)

    q, k, v, beta = cut(q), cut(k), cut(v), cut(beta)
    g = cut(g)[..., 0].cumsum(-1)
    lower = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    decay = (g.unsqueeze(-1) - g.unsqueeze(-2)).masked_fill(~lower, float('-inf')).exp()
    inner = ((k * beta) @ k.transpose(-1, -2) * decay).tril(-1)
    eye = torch.eye(chunk, device=q.device).expand_as(inner)
    right = torch.cat((v * beta, k * beta * g.exp().unsqueeze(-1)), -1)
    solved = torch.linalg.solve_triangular(eye + inner, right, upper=False, unitriangular=True)
    u, w = solved.split([D, k.shape[-1]], -1)
    scores = q @ k.transpose(-1, -2) * decay
    s = torch.zeros(B, H, k.shape[-1], D, device=q.device)
    out = []
    for n in range(N):
        new = u[:, n] - w[:, n] @ s
        e = g[:, n].exp().unsqueeze(-1)
        out.append(q[:, n] * e @ s + scores[:, n] @ new)
        last = g[:, n, :, -1:]
        s = s * last.exp().unsqueeze(-1) + (k[:, n] * (last - g[:, n]).exp().unsqueeze(-1)).transpose(-1, -2) @ new
    return torch.stack(out, 1).transpose(2, 3).reshape(B, T, H, D)


def delta_rule(q, k, v, g, beta):
    if q.is_cuda and chunk_gated_delta_rule is not None:
        return chunk_gated_delta_rule(q, k, v, g, beta.to(v.dtype), use_qk_l2norm_in_kernel=True)[0]
    return delta_rule_chunked(q, k, v, g, beta)


# --- layers -----------------------------------------------------------------------------------------------------------
def int4_scales(w):
    """One fp16 scale per GROUP input columns of w [out, in]."""
    return (w.float().view(w.shape[0], -1, GROUP).abs().amax(-1) / 7.0).clamp_min(1e-6).half()


def rounded(w):
    """What int4 leaves of w."""
    s = int4_scales(w).float().unsqueeze(-1)
    return ((w.float().view(w.shape[0], -1, GROUP) / s).round().clamp(-8, 7) * s).view_as(w).to(w.dtype)


def fake_int4(w):
    """The same with a straight-through gradient."""
    return w + (rounded(w.detach()) - w.detach())


class Linear(nn.Linear):
    """Without bias; `quantised` layers compute with int4 weights while `int4` is on."""
    int4 = True

    def __init__(self, inputs, outputs, quantised=True):
        super().__init__(inputs, outputs, bias=False)
        self.quantised = quantised

    def forward(self, x):
        w = fake_int4(self.weight) if self.quantised and Linear.int4 else self.weight
        return F.linear(x, w.to(torch.bfloat16) if x.is_cuda and x.dtype == torch.bfloat16 else w)


def rms_norm(x, weight, eps):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * (1.0 + weight.float())).to(x.dtype)


def gated_norm(x, z, weight, eps):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (weight * h * F.silu(z.float())).to(x.dtype)


def gated_unit(gate, up):
    return F.silu(gate) * up


class RMSNorm(nn.Module):
    """y = x / rms(x) * (1 + weight), in float32."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class GatedNorm(nn.Module):
    """y = weight * x / rms(x) * silu(z), per head."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x, z):
        return gated_norm(x, z, self.weight, self.eps)


def conv_silu(x, w):
    """Causal depthwise convolution over time, kernel 4, then SiLU: x [B,T,C], w [C,1,4]."""
    p = F.pad(x, (0, 0, 3, 0))
    T = x.shape[1]
    w = w.to(x.dtype)
    return F.silu(p[:, 0:T] * w[:, 0, 0] + p[:, 1:T + 1] * w[:, 0, 1] + p[:, 2:T + 2] * w[:, 0, 2]
                  + p[:, 3:T + 3] * w[:, 0, 3])


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        H = c['hidden_size']
        self.hk, self.hv = c['linear_num_key_heads'], c['linear_num_value_heads']
        self.dk, self.dv = c['linear_key_head_dim'], c['linear_value_head_dim']
        self.K, self.V = self.hk * self.dk, self.hv * self.dv
        self.in_proj_qkv = Linear(H, 2 * self.K + self.V)
        self.in_proj_z = Linear(H, self.V)
        self.in_proj_b = Linear(H, self.hv, False)
        self.in_proj_a = Linear(H, self.hv, False)
        self.conv1d = nn.Conv1d(2 * self.K + self.V, 2 * self.K + self.V, 4, groups=2 * self.K + self.V, bias=False)
        dt = torch.exp(torch.rand(self.hv) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.log(torch.empty(self.hv).uniform_(0.5, 16)))
        self.norm = GatedNorm(self.dv, c['rms_norm_eps'])
        self.out_proj = Linear(self.V, H)

    def forward(self, x, rope, batch):
        T = x.shape[0] // batch
        mixed = conv_silu(self.in_proj_qkv(x).view(batch, T, -1), self.conv1d.weight)
        q, k, v = mixed.split([self.K, self.K, self.V], -1)
        z = self.in_proj_z(x).view(-1, self.hv, self.dv)
        beta = self.in_proj_b(x).float().sigmoid().view(batch, T, self.hv)
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias.float())
        o = delta_rule(q.reshape(batch, T, self.hk, self.dk), k.reshape(batch, T, self.hk, self.dk),
                       v.reshape(batch, T, self.hv, self.dv), g.view(batch, T, self.hv), beta)
        return self.out_proj(self.norm(o.reshape(-1, self.hv, self.dv).to(x.dtype), z).reshape(-1, self.V))


def rotary(x, cos, sin):
    n = cos.shape[-1]
    a, b = x[..., :n], x[..., n:]
    r = torch.cat((-a[..., n // 2:], a[..., :n // 2]), -1)
    return torch.cat((a * cos + r * sin, b), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        H, self.d = c['hidden_size'], c['head_dim']
        self.nq, self.nkv = c['num_attention_heads'], c['num_key_value_heads']
        self.q_proj = Linear(H, self.nq * self.d * 2)
        self.k_proj = Linear(H, self.nkv * self.d)
        self.v_proj = Linear(H, self.nkv * self.d)
        self.o_proj = Linear(self.nq * self.d, H)
        self.q_norm = RMSNorm(self.d, c['rms_norm_eps'])
        self.k_norm = RMSNorm(self.d, c['rms_norm_eps'])

    def forward(self, x, rope, batch):
        T = x.shape[0] // batch
        q, gate = self.q_proj(x).view(-1, self.nq, 2 * self.d).chunk(2, -1)
        q = self.q_norm(q).view(batch, T, self.nq, self.d)
        k = self.k_norm(self.k_proj(x).view(-1, self.nkv, self.d)).view(batch, T, self.nkv, self.d)
        v = self.v_proj(x).view(batch, T, self.nkv, self.d).transpose(1, 2)
        q, k = rotary(q, *rope).transpose(1, 2).to(v.dtype), rotary(k, *rope).transpose(1, 2).to(v.dtype)
        r = self.nq // self.nkv
        o = F.scaled_dot_product_attention(q, k.repeat_interleave(r, 1), v.repeat_interleave(r, 1), is_causal=True)
        o = o.transpose(1, 2).reshape(x.shape[0], -1)
        return self.o_proj(o * torch.sigmoid(gate.reshape(x.shape[0], -1)))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        H, inner = c['hidden_size'], c['intermediate_size']
        self.gate_proj, self.up_proj, self.down_proj = Linear(H, inner), Linear(H, inner), Linear(inner, H)

    def forward(self, x):
        return self.down_proj(gated_unit(self.gate_proj(x), self.up_proj(x)))


class Layer(nn.Module):
    """x [B * T, H] to the same."""

    def __init__(self, c, kind):
        super().__init__()
        if kind == 'full_attention':
            self.self_attn = Attention(c)
        else:
            self.linear_attn = DeltaNet(c)
        self.mlp = MLP(c)
        self.input_layernorm = RMSNorm(c['hidden_size'], c['rms_norm_eps'])
        self.post_attention_layernorm = RMSNorm(c['hidden_size'], c['rms_norm_eps'])

    def forward(self, x, rope, batch):
        mixer = self.self_attn if hasattr(self, 'self_attn') else self.linear_attn
        x = x + mixer(self.input_layernorm(x), rope, batch)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c['vocab_size'], c['hidden_size'])
        self.layers = nn.ModuleList(Layer(c, kind) for kind in c['layer_types'])
        self.norm = RMSNorm(c['hidden_size'], c['rms_norm_eps'])


class MTP(nn.Module):
    """One extra attention layer that predicts token t+2 from the embedding of t+1 and the final hidden state of t."""

    def __init__(self, c):
        super().__init__()
        H, eps = c['hidden_size'], c['rms_norm_eps']
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden = RMSNorm(H, eps), RMSNorm(H, eps)
        self.fc = Linear(2 * H, H, False)
        self.layers = nn.ModuleList([Layer(c, 'full_attention')])
        self.norm = RMSNorm(H, eps)

    def forward(self, embedding, hidden, rope, batch):
        x = self.fc(torch.cat((self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)), -1))
        return self.norm(self.layers[0](x, rope, batch))


class Model(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config or CONFIG
        self.model, self.mtp = Backbone(self.config), MTP(self.config)
        self.compute = None  # dtype of activations, None: that of the weights
        self.recompute_from = 0  # where not 0: tokens of a row from which layers are computed again going backwards

    def rope(self, length, device):
        n = int(self.config['head_dim'] * self.config['partial_rotary_factor'])
        inverse = self.config['rope_theta'] ** (-torch.arange(0, n, 2, device=device).float() / n)
        f = torch.arange(length, device=device).float()[:, None] * inverse[None]
        f = torch.cat((f, f), -1)
        return f.cos()[None, :, None], f.sin()[None, :, None]

    def embed(self, ids):
        """ids [B, T] to [B * T, H]."""
        x = self.model.embed_tokens(ids.reshape(-1))
        return x.to(self.compute) if self.compute else x

    def hidden(self, ids, rope=None):
        """Final normed hidden states [B * T, H] of ids [B, T]."""
        rope = rope or self.rope(ids.shape[1], ids.device)
        x = self.embed(ids)
        again = self.recompute_from and ids.shape[1] >= self.recompute_from and torch.is_grad_enabled()
        for layer in self.model.layers:
            x = checkpoint(layer, x, rope, ids.shape[0], use_reentrant=False) if again else layer(x, rope, ids.shape[0])
        return self.model.norm(x)

    def draft(self, ids, hidden, rope=None):
        """One MTP step: `ids` [B, T] are the tokens after those that `hidden` [B * T, H] stands for."""
        return self.mtp(self.embed(ids), hidden, rope or self.rope(ids.shape[1], ids.device), ids.shape[0])

    def head(self, h):
        return F.linear(h, self.model.embed_tokens.weight.to(h.dtype))


# --- checkpoints ------------------------------------------------------------------------------------------------------
def dequantised(path):
    """Float32 tensors of a checkpoint, GPTQ-packed or not."""
    from safetensors.torch import load_file
    stored, out = load_file(path), {}
    for name, t in stored.items():
        if name.endswith('.qweight'):
            base = name[:-len('.qweight')]
            q = torch.stack([(t.to(torch.int64) >> (4 * j)) & 15 for j in range(8)], 1).reshape(-1, t.shape[1]).float()
            scales = stored[base + '.scales'].float()
            scales = scales.repeat_interleave(q.shape[0] // scales.shape[0], 0)
            out[base + '.weight'] = ((q - 8) * scales).t().contiguous()
        elif not name.endswith(('.qzeros', '.scales', '.g_idx')):
            out[name] = t.float()
    return out


def with_inserted_attention(tensors, seed=1):
    """v0's tensors as v1's: layers from INSERTED on move up by one, and the new layer begins as the identity."""
    out = {}
    for name, t in tensors.items():
        parts = name.split('.')
        if parts[:2] == ['model', 'layers'] and int(parts[2]) >= INSERTED:
            parts[2] = str(int(parts[2]) + 1)
        out['.'.join(parts)] = t
    torch.manual_seed(seed)
    for name, t in Layer(CONFIG, 'full_attention').state_dict().items():
        t = torch.zeros_like(t) if name.endswith(('o_proj.weight', 'down_proj.weight')) or t.dim() == 1 \
            else torch.randn_like(t) * 0.5 / math.sqrt(t.shape[1])
        out[f'model.layers.{INSERTED}.{name}'] = t
    return out


def hf_config(config, quantised):
    c = dict(config)
    first = c['vocab_size'] - len(sources.SPECIALS)
    ids = {s: first + i for i, s in enumerate(sources.SPECIALS)}
    c.update(architectures=['Qwen3_5ForCausalLM'], model_type='qwen3_5_text', tie_word_embeddings=True,
             hidden_act='silu', attention_bias=False, attention_dropout=0.0, dtype='bfloat16', bos_token_id=None,
             mtp_num_hidden_layers=1, use_cache=True, initializer_range=0.02, attn_output_gate=True,
             rope_parameters={'rope_type': 'default', 'rope_theta': c['rope_theta'],
                              'partial_rotary_factor': c['partial_rotary_factor']},
             eos_token_id=[ids['<|im_end|>'], ids['<|endoftext|>']], pad_token_id=ids['<|endoftext|>'])
    if quantised:
        c['quantization_config'] = {'quant_method': 'gptq', 'bits': 4, 'group_size': GROUP, 'sym': True,
                                    'desc_act': False, 'checkpoint_format': 'gptq'}
    return c


def pack_gptq(w):
    """packed_codes of w [out, in] rounded to the nearest."""
    o, i = w.shape
    s = int4_scales(w)
    return packed_codes((w.float().view(o, -1, GROUP) / s.float().unsqueeze(-1)).round().clamp(-8, 7).view(o, i), s)


def packed_codes(codes, scales):
    """codes [out, in] from -8 to 7, fp16 scales [out, in/G] -> qweight int32 [in/8, out], qzeros int32 [in/G, out/8],
    scales fp16 [in/G, out], g_idx int32 [in]; value = (q - 8) * scale."""
    o, i = codes.shape
    q = (codes + 8).to(torch.int64).t().contiguous()
    shift = torch.arange(8, device=codes.device) * 4
    packed = (q.view(i // 8, 8, o) << shift[None, :, None]).sum(1)
    zeros = torch.full((i // GROUP, o // 8), sum(7 << (4 * j) for j in range(8)), dtype=torch.int64)

    def wrap(t):
        return torch.where(t >= 2 ** 31, t - 2 ** 32, t).to(torch.int32)

    return {'qweight': wrap(packed), 'qzeros': wrap(zeros), 'scales': scales.t().contiguous(),
            'g_idx': (torch.arange(i) // GROUP).to(torch.int32)}


def export(model, tokenizer_path, out, quantised=True, packed=None):
    """Writes model.safetensors, config.json and tokenizer.json into `out`; `packed` layers as they are given."""
    from safetensors.torch import save_file
    os.makedirs(out, exist_ok=True)
    layers = {n + '.weight': n for n, m in model.named_modules() if isinstance(m, Linear) and m.quantised}
    tensors = {}
    for name, t in model.state_dict().items():
        t = t.detach().cpu()
        if quantised and name in layers:
            layer = layers[name]
            parts = packed[layer] if packed else pack_gptq(t)
            tensors.update({f'{layer}.{n}': p.contiguous() for n, p in parts.items()})
        else:
            keep32 = name.endswith(('A_log', 'linear_attn.norm.weight'))
            tensors[name] = (t.float() if keep32 else t.to(torch.bfloat16)).contiguous()
    save_file(tensors, os.path.join(out, 'model.safetensors'), metadata={'format': 'pt'})
    with open(os.path.join(out, 'config.json'), 'w') as f:
        json.dump(hf_config(model.config, quantised), f, indent=1)
    with open(tokenizer_path) as source, open(os.path.join(out, 'tokenizer.json'), 'w') as target:
        target.write(source.read())


def load(path, device):
    """A Model from a folder with config.json and model.safetensors, or from a training checkpoint (.pt)."""
    if path.endswith('.pt'):
        model = Model(CONFIG)
        model.load_state_dict(torch.load(path, map_location='cpu'))
    else:
        with open(os.path.join(path, 'config.json')) as f:
            stored = json.load(f)
        model = Model({k: stored[k] for k in CONFIG})
        model.load_state_dict(dequantised(os.path.join(path, 'model.safetensors')))
    return model.to(device).eval()


if __name__ == '__main__':
    if len(sys.argv) < 5 or sys.argv[1] != 'export':
        sys.exit(__doc__)
    export(load(sys.argv[2], 'cpu'), sys.argv[3], sys.argv[4], '--bf16' not in sys.argv)
