"""The training loop of one GPU: plain data parallelism, Muon and AdamW, a plan by the clock."""
import json
import math
import os
import sys
import time
import traceback

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

import model as M
import samples as S
from feed import AHEAD, LENGTHS, TOKENS, Feed

LONGEST_DRAFTED = 16384  # rows that train the MTP layer
PULL = 0.06  # share of the way to its int4 value that a weight goes in the last step


class Batch:
    """Ids on the GPU and, for each of the three predictions ahead, where it counts and how much."""

    def __init__(self, ids, weights, device):
        self.length = ids.shape[1] - AHEAD

        def move(array):
            t = torch.from_numpy(array)
            return t.pin_memory().to(device, non_blocking=True) if device.type == 'cuda' else t

        self.ids = move(ids.astype(np.int64))
        self.at, self.weights = [], []
        for ahead in (1, 2, 3):
            w = weights[:, ahead:ahead + self.length].reshape(-1).astype(np.float32)
            at = np.flatnonzero(w > (0 if ahead == 1 else 0.25))
            self.at.append(move(at))
            self.weights.append(move(w[at]))

    @staticmethod
    def invented(length, device):
        rng = np.random.default_rng(length)
        shape = (max(1, TOKENS // length), length + AHEAD)
        return Batch(rng.integers(0, 16000, shape).astype(np.uint16),
                     (rng.random(shape) < 0.4).astype(np.float16), device)


# --- optimisation -----------------------------------------------------------------------------------------------------
def orthogonal(x, rounds=5):
    """The nearest semi-orthogonal matrices of x [n, rows, columns], by Newton-Schulz in bfloat16."""
    tall = x.shape[1] > x.shape[2]
    x = x.to(torch.bfloat16)
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(rounds):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.transpose(1, 2) if tall else x


class Muon:
    """Momentum whose steps are made orthogonal, in the size of AdamW's; matrices of one shape go together."""

    def __init__(self, matrices, momentum=0.95, decay=0.05):
        self.momentum, self.decay, self.groups = momentum, decay, {}
        for p in matrices:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.buffers = {shape: torch.zeros((len(ps),) + shape, device=ps[0].device)
                        for shape, ps in self.groups.items()}

    @torch.no_grad()
    def step(self, rate):
        for shape, ps in self.groups.items():
            grads, buffer = torch.stack([p.grad for p in ps]), self.buffers[shape]
            buffer.lerp_(grads, 1 - self.momentum)
            change = orthogonal(grads.lerp(buffer, self.momentum)).float() * (0.2 * math.sqrt(max(shape)) * rate)
            torch._foreach_mul_(ps, 1 - rate * self.decay)
            torch._foreach_sub_(ps, list(change.unbind(0)))


class FlatGradients:
    """All gradients as views of one buffer: one all-reduce, one norm, one clearing."""

    def __init__(self, parameters):
        parameters = list(parameters)
        self.flat = torch.zeros(sum(p.numel() for p in parameters), device=parameters[0].device)
        at = 0
        for p in parameters:
            p.grad = self.flat[at:at + p.numel()].view_as(p)
            at += p.numel()

    def clip(self, limit=1.0):
        """The norm, after cutting gradients to `limit` without waiting for the GPU; to 0 where they are not finite."""
        norm = self.flat.norm()
        self.flat.mul_((limit / (norm + 1e-6)).clamp(max=1.0)).nan_to_num_(0.0, 0.0, 0.0)
        return norm


@torch.no_grad()
def settle(weights, share):
    """Draws weights towards what int4 leaves of them, so that they stop changing sides and the rest fits itself to
    them; the largest of a group, which its scale follows, stay where they are."""
    for w in weights:
        w.lerp_(M.rounded(w), share)


def step_loss(model, batch, drafts, ropes, measure=False):
    """(loss, its first term, share of right first tokens and paths or None); `drafts` MTP steps count too."""
    T, ids = batch.length, batch.ids
    if T not in ropes:
        ropes[T] = model.rope(T, ids.device)

    def term(hidden, n):
        target = ids[:, n + 1:n + 1 + T].reshape(-1).index_select(0, batch.at[n])
        logits = model.head(hidden.index_select(0, batch.at[n])).float()
        loss = F.cross_entropy(logits, target, reduction='none')
        right = None
        if measure and n == 0:
            with torch.no_grad():
                key = (batch.weights[0] - S.POINTING).abs() < 0.5
                right = ((logits.argmax(-1) == target) & key).sum() / key.sum().clamp_min(1)
        return (loss * batch.weights[n]).sum() / batch.weights[n].sum().clamp_min(1e-6), right

    hidden = model.hidden(ids[:, :T], ropes[T])
    total, right = term(hidden, 0)
    first = total.detach()
    for n in range(1, drafts + 1):
        hidden = model.draft(ids[:, n:n + T], hidden, ropes[T])
        total = total + (0.4, 0.2)[n - 1] * term(hidden, n)[0]
    return total, first, right


def check_gradients(device):
    """Worst relative error of fla's gradients, with our kernel in it, against the token-by-token rule in float32."""
    torch.manual_seed(0)
    q, k = (torch.randn(2, 320, 4, 128, device=device) for _ in range(2))
    v = torch.randn(2, 320, 8, 128, device=device)
    g, b = -torch.rand(2, 320, 8, device=device) * 0.3, torch.rand(2, 320, 8, device=device)
    leaves = [q.bfloat16(), k.bfloat16(), v.bfloat16(), g.clone(), b.bfloat16()]
    exact = [t.clone() for t in (q, k, v, g, b)]
    for t in leaves + exact:
        t.requires_grad_()
    out, want = M.delta_rule(*leaves), M.delta_rule_reference(*exact)
    w = torch.randn_like(want)
    (out.float() * w).sum().backward()
    (want * w).sum().backward()
    errors = [((x.grad.float() - y.grad).norm() / y.grad.norm()).item() for x, y in zip(leaves, exact)]
    print('delta rule: forward', ((out.float() - want).norm() / want.norm()).item(), 'gradients', errors, flush=True)
    return max(e if math.isfinite(e) else 9.0 for e in errors)


def compile_parts():
    torch._dynamo.config.recompile_limit = 128
    compiled = torch.compile(M.delta_rule_chunk_backward, dynamic=False)

    def backward(q, k, v, do, h, dh, w=None, g=None, dv=None, scale=None, chunk_size=64, **_):
        """TOKENS at a time as one sequence: chunks are independent here, and the shape stays the same."""
        rows = q.shape[0]

        def pieces(t, per):
            return t.reshape(1, -1, *t.shape[2:]).split(per, 1)

        by_token = [pieces(t, TOKENS) for t in (q, k, v, do, w, g, dv)]
        by_chunk = [pieces(t, TOKENS // chunk_size) for t in (h, dh)]
        outs = [compiled(q, k, v, do, h, dh, w=w, g=g, dv=dv, scale=scale, chunk_size=chunk_size)
                for q, k, v, do, w, g, dv, h, dh in zip(*by_token, *by_chunk)]
        return tuple(torch.cat(o, 1).view(rows, -1, *o[0].shape[2:]) for o in zip(*outs))

    if M.chunk_gated_delta_rule is not None:
        sys.modules['fla.ops.gated_delta_rule.chunk'].chunk_bwd_dqkwg = backward
    M.conv_silu, M.rotary = torch.compile(M.conv_silu, dynamic=True), torch.compile(M.rotary, dynamic=True)
    for name in ('fake_int4', 'rms_norm', 'gated_norm', 'gated_unit'):
        setattr(M, name, torch.compile(getattr(M, name), dynamic=False))
    return compiled


def check_compiled(compiled, device):
    """Worst relative difference of the compiled kernel from the plain one, in the shape that training has."""
    torch.manual_seed(1)

    def some(*shape):
        return torch.randn(1, *shape, device=device, dtype=torch.bfloat16)

    q, k = some(TOKENS, 4, 128), some(TOKENS, 4, 128)
    v, do, w, dv = (some(TOKENS, 8, 128) for _ in range(4))
    h, dh = some(TOKENS // 64, 8, 128, 128), some(TOKENS // 64, 8, 128, 128)
    g = -torch.rand(1, TOKENS // 64, 64, 8, device=device).cumsum(2).view(1, TOKENS, 8) * 0.1
    arguments = dict(w=w, g=g, dv=dv, scale=128 ** -0.5, chunk_size=64)
    with torch.no_grad():
        a, b = (f(q, k, v, do, h, dh, **arguments) for f in (compiled, M.delta_rule_chunk_backward))
    errors = [((x.float() - y.float()).norm() / y.float().norm()).item() for x, y in zip(a, b)]
    print('compiled kernel differs by', errors, flush=True)
    return max(e if math.isfinite(e) else 9.0 for e in errors)


# --- training ---------------------------------------------------------------------------------------------------------
def initial_tensors(args):
    last = os.path.join(args.out, 'last.pt')
    if args.resume and os.path.exists(last):
        print('goes on from', last, flush=True)
        return torch.load(last, map_location='cpu')
    tensors = M.dequantised(os.path.join(args.init, 'model.safetensors'))
    layers = len({n.split('.')[2] for n in tensors if n.startswith('model.layers.')})
    return tensors if layers == len(M.CONFIG['layer_types']) else M.with_inserted_attention(tensors)


def save(model, path):
    torch.save({k: v.detach().float().cpu() for k, v in model.state_dict().items()}, path + '.part')
    os.replace(path + '.part', path)


def until(args):
    """When training ends, which a file may set anew while it runs."""
    try:
        with open(os.path.join(args.out, 'until')) as f:
            return float(f.read())
    except (OSError, ValueError):
        return args.until


def train(rank, world, args, source, fraction):
    device = torch.device('cuda', rank) if args.device == 'cuda' else torch.device('cpu')
    control = None
    if args.device == 'cuda':
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision('high')
    if world > 1:
        os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(args.port), GLOO_SOCKET_IFNAME='lo',
                          NCCL_NVLS_ENABLE='0', TORCH_SYMM_MEM_DISABLE_MULTICAST='1')
        dist.init_process_group('nccl' if args.device == 'cuda' else 'gloo', rank=rank, world_size=world)
        control = dist.new_group(backend='gloo')
    model = M.Model(M.CONFIG)
    model.load_state_dict(initial_tensors(args))
    model.to(device)
    matrices = [p for n, p in model.named_parameters()
                if p.dim() == 2 and not any(s in n for s in ('embed', 'in_proj_a', 'in_proj_b'))]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    quantised = [m.weight for m in model.modules() if isinstance(m, M.Linear) and m.quantised]
    gradients, muon = FlatGradients(model.parameters()), Muon(matrices)
    adam = torch.optim.AdamW(others, lr=args.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=args.device == 'cuda')
    ropes = {}
    if args.device == 'cuda':
        model.compute, model.recompute_from = torch.bfloat16, TOKENS + 1
        if check_gradients(device) > 0.03:
            raise RuntimeError('fla computes wrong gradients on this machine')
        compiled = compile_parts() if args.compile else None
        print(f'rank {rank} compiles after {time.time() - args.started:.0f} s', flush=True)
        for length in LENGTHS[::-1] if rank % 2 else LENGTHS:  # what one compiles the other finds
            for drafts in (0, 2)[:1 + (length <= LONGEST_DRAFTED)]:
                began = time.time()
                step_loss(model, Batch.invented(length, device), drafts, ropes, True)[0].backward()
                torch.cuda.synchronize()
                print(f'rank {rank} length {length} drafts {drafts}: {time.time() - began:.1f} s', flush=True)
        if compiled and M.chunk_gated_delta_rule is not None and check_compiled(compiled, device) > 0.03:
            raise RuntimeError('the compiled kernel computes wrong gradients')
        gradients.flat.zero_()
    feed, seen, marks, step, behind = Feed(source), 0, {}, 0, []
    batch = Batch(*feed.get(), device) if args.device == 'cuda' else None
    if world > 1:
        dist.barrier(group=control)
    begin = last_print = last_save = time.time()
    print(f'rank {rank} begins after {begin - args.started:.0f} s, {until(args) - begin:.0f} s to go', flush=True)
    while True:
        now = torch.tensor([(time.time() - begin) / max(1.0, until(args) - begin)], dtype=torch.float64)
        if world > 1:
            dist.broadcast(now, 0, group=control)
        done = now.item()
        if rank == 0:
            fraction.value = min(done, 1.0)
        if done >= 1:
            break
        rate = args.rate * min(1.0, (step + 1) / 50) * min(1.0, max(0.01, (1 - done) / (1 - args.hold)))
        batch = batch or Batch(*feed.get(), device)
        drafts = 2 if step % (6 if done < 0.8 else 3) == 0 and batch.length <= LONGEST_DRAFTED else 0
        measure = step % 10 == 0
        loss, first, right = step_loss(model, batch, drafts, ropes, measure)
        loss.backward()
        length, batch = batch.length, None
        if args.device == 'cuda':  # while the GPU works
            batch = Batch(*feed.get(), device)
        if world > 1:
            if args.device == 'cuda':
                dist.all_reduce(gradients.flat, op=dist.ReduceOp.AVG)
            else:
                dist.all_reduce(gradients.flat)
                gradients.flat.div_(world)
        norm = gradients.clip()
        muon.step(rate)
        for group in adam.param_groups:
            group['lr'] = rate * 0.5
        adam.step()
        gradients.flat.zero_()
        if done > args.settle:
            settle(quantised, PULL * (done - args.settle) / (1 - args.settle))
        step += 1
        seen += max(TOKENS, length) * world
        mark = marks.setdefault(length, [0, 0.0, 0, 0.0])
        mark[0] += 1
        mark[1] += first
        if right is not None:
            mark[2] += 1
            mark[3] += right
        if args.device == 'cuda':  # two steps at most wait on the GPU
            behind.append(torch.cuda.Event())
            behind[-1].record()
            if len(behind) > 2:
                behind.pop(0).synchronize()
        if rank == 0 and (time.time() - last_print > 10 or step == 1):
            told = ' '.join(f'{n}:{m[1] / m[0]:.4f}/' + (f'{m[3] / m[2]:.3f}' if m[2] else '-') + f'({m[0]})'
                            for n, m in sorted(marks.items()))
            count = sum(m[0] * max(TOKENS, n) for n, m in marks.items())
            print(f'step {step} done {done:.3f} rate {rate:.2e} norm {norm:.2f} loss/paths {told} '
                  f'{count * world / (time.time() - last_print) / 1e3:.0f}K tok/s {seen / 1e6:.0f}M '
                  f'ready {source.qsize()}', flush=True)
            marks, last_print = {}, time.time()
        if rank == 0 and time.time() - last_save > 120:
            save(model, os.path.join(args.out, 'last.pt'))
            last_save = time.time()
    if rank == 0:
        save(model, os.path.join(args.out, 'last.pt'))
        with open(os.path.join(args.out, 'done'), 'w') as f:
            f.write(json.dumps({'steps': step, 'tokens': seen, 'seconds': time.time() - begin, 'gpus': world}))
        print('done', step, 'steps', seen / 1e6, 'M tokens', flush=True)
    if world > 1:
        dist.barrier(group=control)


def guarded_train(*arguments):
    try:
        train(*arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
